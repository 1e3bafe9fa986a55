--@gives behind count format n newest now replies reset room share soonest state sub text window
-- Take, the calm case: permits of logs that are as their callers believe. All is in force that was
-- proposed, nothing is booked and nobody contends; or there is no state, and the caller's word is
-- good for one. For any other section the reply is LOOK: nothing was written, and the full take of
-- the algorithm decides. It stands beside that, equal to it result for result.
--
-- The comments of packed.lua and log_load.lua say what a log keeps.
--
-- KEYS  the state of each section's shard, one may come again; last since when the memory is whole
-- ARGV  1 a byte for each section: the terms that it comes with, '0' those that stand first; empty
--       if all come with these. Then of each terms: its columns, and its time to live ms.
--@layout calm
--       cell us: the window if grants are dated at its beginning. exact: entries up to which each
--       grant has one of its own, though it is of the cell of the last. n permits: all of them, or
--       if it is below zero as many as there are. fence: until when anything may be done, 0:
--       always. until: when state may be created, us. need us for which the node must have kept its
--       memory for that. state: how it begins that is as proposed, up to its sign.
-- Reply a text: now us; then of each section, behind a comma: nothing if its state was created;
--       "-": LOOK; else the permits that were free, us until more are, and us until all are.

-- Goes on with the sections that are left. It raises where what is stored cannot be a log, or the
-- server refuses to write, and then has written nothing that means anything.
local function each(now, replies, looked)
  local call, sub, format, keys, plan, stamp = redis.call, string.sub, string.format, KEYS, @PLAN, replies[1]
  local served, its, terms, life, open, asked, begin, behind, place, once, fresh, kept = #replies
  local window, share, cell, exact, fixed, begins, date, cut
  for at = served, @COUNT do
    local key, text, which = keys[at], nil, plan == '' and 48 or string.byte(plan, at)
    if which ~= its then
      its, terms, life, fresh, window = which, ARGV[which * 2 - 96 + @FIRST], ARGV[which * 2 - 95 + @FIRST], nil, nil
      asked, open = sub(terms, @calm.n) + 0, sub(terms, @calm.fence)
      open = open == '@calm.fence.zero' or now <= open + 0
    end
    repeat -- once; it ends before where the full take must decide
      if not open or looked[key] then
        break
      end
      local state, n = call('GETRANGE', key, '0', '@END'), asked
      if state == '' then
        if fresh == nil then
          local may, need = now <= sub(terms, @calm.until) + 0, sub(terms, @calm.need) + 0
          if may and need > 0 and not kept then -- as packed_adopt.lua says
            local mark = call('GET', keys[#keys]) or '0 0'
            local since, seen = string.match(mark, '^(%d+) (%d+)$')
            local sound = #mark <= @MARK_BYTES and since + 0 <= seen + 0
            seen = seen - now <= 1000000 and seen + 0 or 0
            if sound and now - seen > @GAP then
              local up = string.match(call('INFO', 'server'), 'uptime_in_seconds:(-?%d+)')
              local begun = now - math.max(up - 1, 0) * 1000000
              since = seen < begun - @GAP and begun or since
            end
            if sound and now - seen >= 1000000 then
              call('SET', keys[#keys], format('%d %d', since, now), 'PX', '@MARK_LIFE')
            end
            kept = sound and now - since or -1
          end
          fresh = may and (need <= 0 or kept >= need)
            and sub(terms, @calm.state) .. ',' .. stamp .. (n * n == 1 and '1' or format('%d', n < 0 and -n or n))
        end
        if fresh then
          call('SET', key, fresh, 'PX', life)
          text = ''
        end
        break
      end
      if not window then
        window, share = sub(terms, @calm.window) + 0, sub(terms, @calm.share) + 0
        cell, exact = sub(terms, @calm.cell) + 0, sub(terms, @calm.exact) + 0
        begin = sub(terms, @calm.state)
        once, begin = begin .. ',', begin .. '@SIGN'
        fixed, behind, cut = cell == window, #begin + @MARK + 1, now - window
        place = format('%d', behind - 1 + @packed.touched.at)
        begins = fixed and now - now % window or now
        date = fixed and format('@entry.date.form', begins) or stamp
      end
      local single, rest = @MARK == 0 and sub(state, 1, #once) == once and #state < behind + @once.bytes + 15, nil
      if single then -- goes on as the columns that it stands for
        local made, total = sub(state, @once.touched[behind]), format('%15s', sub(state, @once.total[behind]))
        local first = fixed and format('@entry.date.form', made - made % window) or made
        state, rest = begin .. '@packed.start.zero' .. made .. '   1' .. first .. total .. made
          .. '@log.before..dead.zero' .. first, ''
      elseif sub(state, 1, #begin) ~= begin then
        break
      end
      local touched, newest, oldest = sub(state, @packed.touched[behind]) + 0, sub(state, @log.newest[behind]) + 0,
        sub(state, @log.oldest[behind]) + 0
      local count, since = sub(state, @log.count[behind]) + 0, nil
      local total, before, dead = sub(state, @log.total[behind]) + 0, sub(state, @log.before[behind]) + 0,
        sub(state, @log.dead[behind]) + 0
      -- Where the entries begin that are alive, and how long they are without the newest.
      local from, length = behind - 1 + @log.bytes + dead * @entry.bytes, (count - 1) * @entry.bytes
      if not (touched <= now and newest <= now and oldest <= now and total >= 0 and total < @WRAP and total % 1 == 0
        and before >= 0 and before < @WRAP and before % 1 == 0 and dead >= 0 and dead % 1 == 0 and dead + count < 2e4
        and count % 1 == 0 and (count > 0 or count == 0 and newest <= cut) and (total > 0 or not single)
        and (#state == @READ or #state >= behind - 1 + @log.bytes and #state >= from + length)) then
        break
      end
      if newest <= cut then
        since, before = count > 0 and newest + (fixed and window or 1) or sub(state, @log.since[behind]), total
        count, dead, rest = 0, 0, ''
      elseif oldest <= cut then
        local list = sub(state, from + 1, from + length)
        if #list < length and (dead >= count or list == '' or sub(list, @entry.date[..#list]) + 0 <= cut) then
          list = call('GETRANGE', key, format('%d', from), format('%d', from + length - 1))
        end
        local gone, high = 0, #list / @entry.bytes
        while gone < high do
          local middle = math.floor((gone + high) / 2)
          if sub(list, @entry.date[middle * @entry.bytes + 1]) + 0 > cut then
            high = middle
          else
            gone = middle + 1
          end
        end
        local last = gone * @entry.bytes
        if gone == 0 or last == #list and last < length then
          break
        end
        since, before = sub(list, @entry.date[..last]) + (fixed and window or 1), sub(list, @entry.total[..last]) + 0
        count, dead, from, length = count - gone, dead + gone, from + last, length - last
        oldest, list = count > 1 and sub(list, @entry.date[last + 1]) + 0 or newest, sub(list, last + 1)
        if #list == length and (dead > count or length <= @entry.bytes[8]) then -- all of them are written
          dead, rest = 0, list
        end
      end
      local room, soonest, reset = share - (total - before) % @WRAP, begins + window - now, begins + window - now
      if count > 0 then
        soonest = oldest + window - now
      end
      --@include @DECIDE
      if n > 0 then
        if count > 0 and newest ~= begins and count < @MOST_ENTRIES
          and (count < exact or newest < now - now % cell) then
          local entry = sub(state, @log.newest..total[behind])
          if rest then
            rest = rest .. entry
          elseif #state == from + length and #state < @READ then
            call('APPEND', key, entry)
          else
            call('SETRANGE', key, format('%d', from + length), entry)
          end
          count = count + 1
        elseif count < 2 then
          count, oldest, soonest, since = 1, begins, reset, since or sub(state, @log.since[behind])
        end
        local own = format('%s@log.count.form%s@log.total.form', stamp, count, date, (total + n) % @WRAP)
        if since then
          own = own .. format('@log.since..oldest.form', since, before, dead, oldest)
        elseif single then
          own = own .. sub(state, @log.since..oldest[behind])
        end
        own = own .. (rest or '')
        if single or rest and length > @entry.bytes[8] then -- it is of another kind, or becomes shorter
          call('SET', key, sub(state, 1, behind - 1 + @packed.touched.at) .. own, 'PX', life)
        else
          call('SETRANGE', key, place, own)
          if touched < now - now % (window / 16) then -- not before: a server that is full refuses the first write only
            redis.pcall('PEXPIRE', key, life)
          end
        end
      end
      --@include @TELL
      text = format('%d %d %d', room, soonest, reset)
    until true
    if not text then
      looked[key] = true
    end
    replies[at + 1] = text or '-'
  end
end

local clock = redis.call('TIME')
local now, looked = clock[1] * 1000000 + clock[2], {}
local replies = {string.format('%16d', now)}
while not pcall(each, now, replies, looked) do
  looked[KEYS[#replies]] = true
  replies[#replies + 1] = '-'
end
local text = table.concat(replies, ',')
return replies.told and {text, replies.told} or text
