-- Take, the calm case: permits of logs that are as their callers believe, where nothing is booked
-- and nobody contends; or there is no state, and the caller's word is good for one. For any other
-- section, or if many entries have left at once, the reply is LOOK: nothing was written, and the
-- full take decides, to which this is equal. packed.lua and log.lua say what a log keeps.
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
      local state, n = open and not looked[key] and call('GETRANGE', key, '0', '@END'), asked
      if not state then
        break
      elseif state == '' then
        if fresh == nil then
          local may = now <= till
          if may and lasting > 0 and not memory then
            --@include memory
            memory = kept and not done.err and kept or -1
          end
          fresh = may and (lasting <= 0 or memory >= lasting) and once .. pack('@once.form', now, n)
        end
        if fresh then
          call('SET', key, fresh, 'PX', life)
          answer = '\1'
        end
        break
      end
      local returned, touched, count, newest, total, since, before, dead, oldest = 0
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
        local list, most = sub(state, from + 1, from + length), dead < count and @entry.bytes[16] or length
        list = sub(list, 1, #list - #list % @entry.bytes)
        if #list < length and (dead >= count or list == ''
          or numbers('@entry.date.form', list, @entry.date.from[..#list]) <= cut) then
          list = call('GETRANGE', key, format('%d', from), format('%d', from + math.min(most, length) - 1))
        end
        local last = @entry.bytes -- the oldest has left, and often no other
        while last < #list and numbers('@entry.date.form', list, last + 1) <= cut do
          last = last + @entry.bytes
        end
        if last == #list and last < length then
          break
        end
        since, before = numbers('@entry.form', list, @entry.date.from[..last])
        since, count, dead = since + (fixed and window or 1), count - last / @entry.bytes, dead + last / @entry.bytes
        from, length = from + last, length - last
        oldest, list = count > 1 and numbers('@entry.date.form', list, last + 1) or newest, sub(list, last + 1)
        if #list == length and (dead > count or length <= @entry.bytes[8]) then -- all of them are written
          dead, rest = 0, list
        end
      end
      local room, reset = share - (total - before) % @WRAP, begins + window - now
      local soonest = (count > 0 and oldest or begins) + window - now
      --@include @DECIDE
      --@include take_grant
      --@include @TELL
      answer = pack('@told.form', room, soonest, reset, returned > cut and 1 or 0)@MORE
    until true
    looked[key], replies[at + 1] = not answer, answer or '\2'
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
