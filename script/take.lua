-- Take, the calm case: permits of logs that are as their callers believe. All is in force that was
-- proposed, nothing is booked and nobody contends; or there is no state, and the caller's word is
-- good for one. For any other section the reply is LOOK: nothing was written, and the full take of
-- the algorithm decides. It stands beside that, equal to it result for result where the state is
-- sound. The comments of packed.lua and log.lua say what a log keeps.
--
-- KEYS  the state of each section's shard, one may come again; last since when the memory is whole
-- ARGV  1 a byte for each section: the terms that it comes with, '0' those that stand first; empty
--       if all come with these. Then of each terms: its columns, and its time to live ms.
--@layout calm
--       cell us: the window if grants are dated at its beginning. exact: entries up to which each
--       grant has one of its own, though it is of the cell of the last. n permits: all of them, or
--       with `part` as many as there are. fence: until when anything may be done, 0: always. until:
--       when state may be created, us. need us for which the node must have kept its memory for
--       that. state: how it begins that is as proposed, up to its sign.
-- Reply a text: now us, in the bytes of a date; then of each section a byte 1: its state was
--       created; or 2: LOOK; or, and that begins with 0, the permits that were free, us until more
--       are, us until all are, and whether some came back early in the last window.
--@layout told

-- Goes on with the sections that are left. It raises where what is stored cannot be a log, or the
-- server refuses to write, and then has written nothing that means anything.
local function each(now, replies, looked)
  local call, sub, format, keys, plan = redis.call, string.sub, string.format, KEYS, @PLAN
  local served, its, life, asked, some, open, fence, till, lasting, once, begin, behind, place, fresh, memory = #replies
  local window, share, cell, exact, fixed, begins, cut
  for at = served, @COUNT do
    local key, answer, which = keys[at], nil, plan == '' and 48 or string.byte(plan, at)
    if which ~= its then
      local terms = ARGV[which * 2 - 94]
      its, life, fresh = which, ARGV[which * 2 - 93], nil
      share, window, cell, exact, asked, some, fence, till, lasting = numbers('@calm.form', terms, 1)
      once, begin = sub(terms, @calm.state) .. ',', sub(terms, @calm.state) .. '@SIGN'
      open, fixed, cut, behind = fence == 0 or now <= fence, cell == window, now - window, #begin + @MARK + 1
      begins, place = fixed and now - now % window or now, format('%d', behind - 1 + @packed.touched.at)
    end
    repeat -- once; it ends before where the full take must decide
      if not open or looked[key] then
        break
      end
      local state, n = call('GETRANGE', key, '0', '@END'), asked
      if state == '' then
        --@include take_fresh
        break
      end
      local touched, count, newest, total, since, before, dead, oldest
      local returned = 0
      local front = sub(state, 1, #begin)
      local single, rest = front == once and #state == behind - 1 + @once.bytes, nil
      if single then -- goes on as the columns that it stands for
        touched, total = numbers('@once.form', state, behind)
        newest, count, since, before, dead, rest = fixed and touched - touched % window or touched, 1, touched, 0, 0, ''
        oldest = newest
      elseif front == begin then
        returned, touched, count, newest, total, since, before, dead, oldest =
          numbers('@packed.returned..touched.form@log.form', state, behind + @packed.returned.at)
      else
        break
      end
      -- Where the entries begin that are alive, and how long they are without the newest.
      local from, length = behind - 1 + @log.bytes + dead * @entry.bytes, (count - 1) * @entry.bytes
      if not (touched <= now and newest <= now and oldest <= newest and total < @WRAP and before < @WRAP
        and dead + count < 2e4 and (count > 0 or newest <= cut)
        and (single and total > 0 or not single and (#state == @READ or #state >= from + length))) then
        break
      end
      local anew = single or oldest <= cut -- what only some grants change
      if newest <= cut then
        since, before = count > 0 and newest + (fixed and window or 1) or since, total
        count, dead, rest = 0, 0, ''
      elseif oldest <= cut then
        local list, more = sub(state, from + 1, from + length), dead < count and @entry.bytes[8] or length
        list = sub(list, 1, #list - #list % @entry.bytes)
        -- Of a long list some more are read, and only then all.
        while more and #list < length
          and (dead >= count or list == '' or numbers('@entry.date.form', list, @entry.date.from[..#list]) <= cut) do
          list = call('GETRANGE', key, format('%d', from), format('%d', from + math.min(more, length) - 1))
          more = more < length and length
        end
        local gone, high = 1, #list / @entry.bytes -- the oldest has left, and often no other
        while gone < high do
          local middle = math.floor((3 * gone + high) / 4)
          if numbers('@entry.date.form', list, middle * @entry.bytes + 1) > cut then
            high = middle
          else
            gone = middle + 1
          end
        end
        local last = gone * @entry.bytes
        if last == #list and last < length then
          break
        end
        since, before = numbers('@entry.form', list, @entry.date.from[..last])
        since, count, dead = since + (fixed and window or 1), count - gone, dead + gone
        from, length = from + last, length - last
        oldest, list = count > 1 and numbers('@entry.date.form', list, last + 1) or newest, sub(list, last + 1)
        if #list == length and (dead > count or length <= @entry.bytes[8]) then -- all of them are written
          dead, rest = 0, list
        end
      end
      local room, reset = share - (total - before) % @WRAP, begins + window - now
      local soonest = (count > 0 and oldest or begins) + window - now
      --@include @DECIDE
      if n > 0 then
        local entry = ''
        if count > 0 and newest ~= begins and count < @MOST_ENTRIES
          and (count < exact or newest < now - now % cell) then
          count, entry = count + 1, single and pack('@entry.form', newest, total) or sub(state, @log.newest..total[behind])
          if not rest and (anew or #state == @READ) then
            call('SETRANGE', key, format('%d', from + length), entry)
            entry = ''
          end
        elseif count < 2 then
          count, oldest, soonest, anew = 1, begins, reset, true
        end
        local own = pack('@packed.touched.form@log.count..total.form', now, count, begins, (total + n) % @WRAP)
        if anew then
          own = own .. pack('@log.since..oldest.form', since, before, dead, oldest) .. (rest or '') .. entry
        elseif entry ~= '' then
          own = own .. sub(state, @log.since.from[behind], from + length) .. entry
        end
        if rest and length > @entry.bytes[8] then -- it becomes shorter
          call('PSETEX', key, life, sub(state, 1, behind - 1 + @packed.touched.at) .. own)
        elseif single then
          call('SETRANGE', key, format('%d', behind - 2), '@SIGN@packed.start..returned.zero' .. own)
        else
          call('SETRANGE', key, place, own)
        end
        if touched < now - now % (window / 16) then -- not before: a server that is full refuses the first write only
          redis.pcall('PEXPIRE', key, life)
        end
      end
      --@include @TELL
      answer = pack('@told.form', room, soonest, reset, returned > cut and 1 or 0)@MORE
    until true
    if not answer then
      looked[key] = true
    end
    replies[at + 1] = answer or '\2'
  end
end

local clock = redis.call('TIME')
local now, looked = clock[1] * 1000000 + clock[2], {}
local replies = {pack('@once.touched.form', now)}
while not pcall(each, now, replies, looked) do
  looked[KEYS[#replies]] = true
  replies[#replies + 1] = '\2'
end
return table.concat(replies)
