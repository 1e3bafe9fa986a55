--@needs before behind calm ceil count dead entries expired floor format head leave newest now
--@needs oldest share since stepped sub total touched window
-- Logs, take: the calm case, decided here at once. Everything is as proposed, nothing is booked and
-- nobody contends. One group asks, and gets what it wants, or has no name. Else the parts that
-- follow decide.
--
-- A state of which everything has been read is written whole, unless only the newest entry changes.
-- The time to live is set anew in each sixteenth of a window.
local wanted = ARGV[3]
local single = sub(wanted, @one.groups..size) == '@ONE'
if calm and not stepped and share > 0 and newest <= now
  and (single or sub(wanted, @asks.groups..reports) == '@ALONE') then
  local size, granted = single and 1 or sub(wanted, @one.size) + 0, sub(wanted, @one.count) + 0
  local used = (total - before) % @WRAP
  local free, refused = used < share and share - used or 0, false
  if size * granted > free then
    refused, granted = true, floor(free / size)
  end
  granted = granted * size
  local date, upto, entered, closed = newest, total, count, nil -- the newest entry, and the one before
  if granted > 0 then
    date, upto = @FIXED and now - now % window or now, (total + granted) % @WRAP
    local cell = floor(window / @CELLS)
    if count > 0 and date ~= newest and count < @MOST_ENTRIES
      and (@FIXED or count < @EXACT_LIVE or share <= @EXACT_SHARE
      or date - date % cell ~= newest - newest % cell) then
      closed = format('@entry.form', newest, total)
    end
    entered = (closed or count == 0) and count + 1 or count
  end
  local whole = #entries >= behind * @entry.bytes
  local first = entered == 1 and date or oldest
  used = used + granted
  local next_us, retry_in = used > 0 and first + window - now or 0, 0
  local simple, gone = whole or not closed or dead <= count, used + 1 - share
  if refused then
    retry_in, gone = size <= share and next_us or -1, size <= share and used + size - share or gone
    simple = simple and #wanted < @one.callers
  end
  if simple and gone > 1 then
    simple = granted == 0
    if simple then
      --@include log_leave
      next_us = used + 1 > share and leave(used + 1 - share) or next_us
      retry_in = retry_in > 0 and leave(gone) or retry_in
    end
  end
  if simple then
    local reset = used > 0 and date + window - now or 0
    if granted > 0 then
      local done
      local same = now - now % (window / 16) == touched - touched % (window / 16)
      local life = not same and format('%d', ceil(reset / 1000) + sub(ARGV[2], @terms.head_life))
      if whole and not (same and entered == count) then
        local own = sub(head, @packed.magic..offset)
          .. format('@packed.touched.form@packed.contended.zero@log.since..total.form', now, since, before, 0,
            entered, first, date, upto) .. entries .. (closed or '')
        if same then
          done = redis.pcall('SET', KEYS[1], own, 'KEEPTTL')
        else
          done = redis.pcall('SET', KEYS[1], own, 'PX', life)
        end
      else
        if closed then
          done = redis.pcall('SETRANGE', KEYS[1], format('%d', @log.bytes + (dead + behind) * @entry.bytes), closed)
        end
        local own
        if expired or entered > count then
          own = format('@packed.touched.form@packed.contended.zero@log.since..total.form', now, since, before,
            dead, entered, first, date, upto)
        else
          own = format('@packed.touched.form', now) .. sub(head, @packed.contended.from, @log.count.to)
            .. format('@log.oldest..total.form', first, date, upto)
        end
        if type(done) ~= 'table' then
          done = redis.pcall('SETRANGE', KEYS[1], '@packed.touched.at', own)
          if life then
            redis.pcall('PEXPIRE', KEYS[1], life)
          end
        end
      end
      if type(done) == 'table' and done.err then
        return {-2, done.err}
      end
    end
    return {1, 0, free, granted, used, now, next_us, retry_in, reset}
  end
end
