--@gives behind count format free given n newest now reset room soonest state sub t
-- Take, the calm case: permits of logs that are as their callers believe. All is in force that was
-- proposed, nothing is booked and nobody contends; or there is no state, and the caller's word is
-- good for one. For any other section the reply is LOOK: nothing was written, and the full take of
-- the algorithm decides. It stands beside that, equal to it result for result.
--
-- The comments of packed.lua and log_load.lua say what a log keeps.
--
-- KEYS  the state of each section's shard, one may come again; last since when the memory is whole
-- ARGV  1 a byte for each section: the terms that it comes with, '0' those that stand first; empty
--       if all come with these. Then of each terms:
--         how a state begins that is as proposed, up to its sign    share    window us
--         time to live ms
--         cell us: the window if grants are dated at its beginning
--         entries up to which each grant has one of its own, though it is of the cell of the last
--         permits: all of them, or if it is below zero as many as there are
--         until when anything may be done, 0: always    until when state may be created, us
--         us for which the node must have kept its memory for that
-- Reply now us; then of each section the permits that were free, -1: LOOK; us until more are, 0:
--       the state was created; us until all are

-- Goes on with the sections that are left. It raises where what is stored cannot be a log, or the
-- server refuses to write, and then has written nothing that means anything.
local function each(now, replies, looked, given)
  local call, sub, format, keys, plan = redis.call, string.sub, string.format, KEYS, @PLAN
  local stamp, place, t = format('@packed.touched.form', now), nil, nil
  for at = (#replies + 2) / 3, @COUNT do
    local key, free, soonest, reset = keys[at], nil, nil, nil
    local its = plan == '' and 48 or string.byte(plan, at)
    if its ~= place then
      place, t = its, given[its]
    end
    if not t then
      local first = (place - 48) * 10 + @FIRST
      local window, fixed = ARGV[first + 2] + 0, ARGV[first + 4] == ARGV[first + 2]
      local begins, begin = fixed and now - now % window or now, ARGV[first] .. '@SIGN'
      local behind = #begin + @MARK + 1
      local read = behind - 1 + @log.bytes + @entry.bytes[8]
      t = {
        first = first, once = ARGV[first] .. ',', begin = begin, behind = behind, read = read,
        last = format('%d', read - 1), touched = format('%d', behind - 1 + @packed.touched.at),
        share = ARGV[first + 1] + 0, window = window, exact = ARGV[first + 5] + 0, n = ARGV[first + 6] + 0,
        open = ARGV[first + 7] == '0' or now <= ARGV[first + 7] + 0, gap = fixed and window or 1,
        date = fixed and format('@entry.date.form', begins) or stamp,
        cut = now - window, begins = begins, reset = begins + window - now,
      }
      given[place] = t
    end
    repeat -- once; it ends before where the full take must decide
      if not t.open or looked[key] then
        break
      end
      local state, n, first, cut, behind = call('GETRANGE', key, '0', t.last), t.n, t.first, t.cut, t.behind
      if state == '' then
        if t.fresh == nil then
          local may, need, many = now <= ARGV[first + 8] + 0, ARGV[first + 9] + 0, n < 0 and -n or n
          if may and need > 0 and not given.kept then -- as packed_adopt.lua says
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
            given.kept = sound and now - since or -1
          end
          t.fresh = may and (need <= 0 or given.kept >= need) and t.once .. stamp .. format('%d', many)
        end
        if t.fresh then
          call('SET', key, t.fresh, 'PX', ARGV[first + 3])
          free, soonest, reset = t.share, 0, t.reset
        end
        break
      end
      local once, count, before, dead = #state < behind + @once.bytes + 15, 1, 0, 0
      local touched, newest, oldest, total, since, rest
      if once then
        touched, total = sub(state, @once.touched[behind]) + 0, sub(state, @once.total[behind]) + 0
        newest, since, rest = t.gap > 1 and touched - touched % t.window or touched, touched, ''
        oldest = newest
      else
        touched, newest, oldest, count, total, before, dead = sub(state, @packed.touched[behind]) + 0,
          sub(state, @log.newest[behind]) + 0, sub(state, @log.oldest[behind]) + 0, sub(state, @log.count[behind]) + 0,
          sub(state, @log.total[behind]) + 0, sub(state, @log.before[behind]) + 0, sub(state, @log.dead[behind]) + 0
      end
      -- Where the entries begin that are alive, and how long they are without the newest.
      local from, length = behind - 1 + @log.bytes + dead * @entry.bytes, (count - 1) * @entry.bytes
      if string.find(state, once and t.once or t.begin, 1, true) ~= 1
        or not (touched <= now and newest <= now and oldest <= now and total >= 0 and total < @WRAP and total % 1 == 0
        and before >= 0 and before < @WRAP and before % 1 == 0 and dead >= 0 and dead % 1 == 0 and dead + count < 2e4
        and count % 1 == 0 and (count > 0 or count == 0 and newest <= cut)
        and (once and total > 0 or #state == t.read
          or #state >= behind - 1 + @log.bytes and #state >= from + length)) then
        break
      end
      if newest <= cut then
        since, before = count > 0 and newest + t.gap or sub(state, @log.since[behind]), total
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
        since, before = sub(list, @entry.date[..last]) + t.gap, sub(list, @entry.total[..last]) + 0
        count, dead, from, length = count - gone, dead + gone, from + last, length - last
        oldest, list = count > 1 and sub(list, @entry.date[last + 1]) + 0 or newest, sub(list, last + 1)
        if #list == length and (dead > count or length <= @entry.bytes[8]) then -- all of them are written
          dead, rest = 0, list
        end
      end
      local stale = not once and touched < now - now % (t.window / 16) -- in each sixteenth the time to live is set
      local room = t.share - (total - before) % @WRAP
      soonest = count > 0 and oldest + t.window - now or t.reset
      --@include @DECIDE
      if n > 0 then
        if count == 0 then
          count, oldest, soonest, since = 1, t.begins, t.reset, since or sub(state, @log.since[behind])
        elseif newest ~= t.begins and count < @MOST_ENTRIES
          and (count < t.exact or newest < now - now % ARGV[first + 4]) then
          local made, entry = once and t.gap == 1 and sub(state, @once.touched[behind])
          if not once then
            entry = sub(state, @log.newest..total[behind])
          else
            entry = made and made .. format('@entry.total.form', total) or format('@entry.form', newest, total)
          end
          if made then -- texts, as to write numbers is dear
            rest, since = made .. '@log.before..dead.zero' .. made .. entry, nil
          elseif rest then
            rest = rest .. entry
          elseif #state == from + length and #state < t.read then
            call('APPEND', key, entry)
          else
            call('SETRANGE', key, format('%d', from + length), entry)
          end
          count = count + 1
        elseif count == 1 then
          oldest, soonest, since = t.begins, t.reset, since or sub(state, @log.since[behind])
        end
        local own = format('%s@log.count.form%s@log.total.form', stamp, count, t.date, (total + n) % @WRAP)
        if since then
          own = own .. format('@log.since..oldest.form', since, before, dead, oldest)
        end
        own = own .. (rest or '')
        if once then
          call('SET', key, t.begin .. '@packed.start.zero' .. own, 'PX', ARGV[first + 3])
        elseif rest and length > @entry.bytes[8] then -- so the string becomes shorter
          call('SET', key, sub(state, 1, behind - 1 + @packed.touched.at) .. own, 'PX', ARGV[first + 3])
        else
          call('SETRANGE', key, t.touched, own)
        end
        if stale then -- not before: a server that is full refuses the first write only
          redis.pcall('PEXPIRE', key, ARGV[first + 3])
        end
      end
      free, reset = room, t.reset
      --@include @TELL
    until true
    if not free then
      free, soonest, reset, looked[key] = -1, 0, 0, true
    end
    replies[at * 3 - 1], replies[at * 3], replies[at * 3 + 1] = free, soonest, reset
  end
end

local clock = redis.call('TIME')
local now, looked, given = clock[1] * 1000000 + clock[2], {}, {}
local replies = {now}
while not pcall(each, now, replies, looked, given) do
  local last = #replies
  looked[KEYS[(last + 2) / 3]] = true
  replies[last + 1], replies[last + 2], replies[last + 3] = -1, 0, 0
end
replies[#replies + 1] = given.reply
return replies
