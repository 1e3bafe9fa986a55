-- Sliding log, sliding counter and fixed window, part 1: what was granted, entry by entry, each
-- with a date and the total up to it. An entry counts in every window that holds its date. What is
-- booked are entries dated ahead, in the order of their dates; time makes them part of the past.
--
-- The three differ in how they date. A log has an entry for each grant while @EXACT_LIVE are alive,
-- or the share is small. Then, and in a counter always, what is granted in the same of @CELLS cells
-- of a window shares an entry with the date of its newest grant: permits come back late by at most
-- a cell, never early. A fixed window dates everything at its beginning.
--
-- Totals run modulo @WRAP, so that what lies between two entries is a difference and nothing is
-- ever summed. No entry is empty.
--
-- The newest entry has columns of its own, so that most grants write nothing else. The others
-- follow, oldest first. Those in front that have left the window stay there, and are only counted,
-- until there are more of them than others: so a take reads and writes as much of a long log as of
-- a short one. What is behind all of them means nothing.
--@layout log
--@layout entry
local since, before, dead, count, oldest, newest, total = now, 0, 0, 0, 0, 0, 0
local entries, behind = '', 0 -- those behind the newest: as far as they are read; how many there are
if head then
  local sound
  if sign == ',' then
    count, since, total = 1, numbers('@once.form', own, 1)
    newest = @FIXED and touched - touched % window or touched
    oldest, sound = newest, #own == @once.bytes and total >= 1
  elseif #own >= @log.bytes then
    count, newest, total, since, before, dead, oldest = numbers('@log.form', own, @log.count.from)
    sound = dead + count < 2e4 and (#own >= @log.bytes + (dead + count - 1) * @entry.bytes or #head == @READ)
  end
  if not (sound and oldest < 1e16 and newest < 1e16 and total < @WRAP and before < @WRAP) then
    return {-1, 1}
  end
end
if head then
  if newest <= now - window then
    if count > 0 then
      since, before = newest + (@FIXED and window or 1), total
    end
    count, oldest, newest, total = 0, 0, 0, before
  elseif count > 1 then
    behind = count - 1
    local from = @log.bytes + dead * @entry.bytes
    entries = sub(own, from + 1, from + math.min(behind, floor((#own - from) / @entry.bytes)) * @entry.bytes)
    if oldest <= now - window then
      if entries == '' then
        from = from + base
        entries = redis.call('GETRANGE', KEYS[1], format('%d', from), format('%d', from + @entry.bytes[8] - 1))
        entries = sub(entries, 1, behind * @entry.bytes)
      end
      if #entries < behind * @entry.bytes
        and numbers('@entry.date.form', entries, @entry.date.from[..#entries]) <= now - window then
        --@include log_rest
      end
      local low, high = 2, #entries / @entry.bytes + 1
      while low < high do
        local middle = floor((low + high) / 2)
        if numbers('@entry.date.form', entries, (middle - 1) * @entry.bytes + 1) > now - window then
          high = middle
        else
          low = middle + 1
        end
      end
      local gone = low - 1
      local last = gone * @entry.bytes
      since, before = numbers('@entry.form', entries, @entry.date.from[..last])
      since = since + (@FIXED and window or 1)
      entries, dead, count, behind = sub(entries, last + 1), dead + gone, count - gone, behind - gone
      oldest = entries == '' and newest or numbers('@entry.date.form', entries, 1)
    end
  end
end
