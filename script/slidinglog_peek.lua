--@needs TURN base before closed_until crests cut damaged epoch format head newest now oldest share
--@needs start sub target total used window
--@sets share
-- Peek: what a take that asks for nothing would find. Writes nothing, creates nothing.
--
-- Reply status, epoch, target, share, start, used, window us, quarantine left us, reset us, number of crests (0: nothing is booked ahead),
--       then of each crest in us (0: not ahead of the clock), permits, permits up to its end: see slidinglog_crests.lua,
--       then in us, permits of each release, oldest first: at most 32, neighbours merged into the later one
if not head then
  return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
end
if damaged then
  return {-1, 2}
end
local closed = 0
if closed_until > now then
  closed = closed_until - now
end
if share > target and closed == 0 then
  local held = used > target and used or target
  if held < share then
    share = held
  end
end
local reply = {1, epoch, target, share, start, used, window, closed, 0, 0}
if newest > now then
  --@include slidinglog_crests
  for i, crest in ipairs(crests) do
    reply[3 * i + 8], reply[3 * i + 9], reply[3 * i + 10] = crest[1] > now and crest[1] - now or 0, crest[2], crest[3]
  end
  reply[10] = #crests
end
if used > 0 then
  local dates, befores = {}, {}
  if oldest > 0 then
    local members = redis.pcall('ZRANGEBYSCORE', KEYS[2], format('(%d', cut), '+inf')
    if members.err then
      return {-1, 2, members.err}
    end
    local sound = pcall(function()
      for i, member in ipairs(members) do
        dates[i], befores[i] = sub(member, @entry.date) + 0, sub(member, @entry.before) + 0
      end
    end)
    if not sound then
      return {-1, 2}
    end
  end
  befores[#befores + 1] = before
  if total ~= before then
    dates[#dates + 1] = newest
    befores[#befores + 1] = total
  end
  local step, from = math.ceil(#dates / @MAX_RELEASES), base
  for i = step, #dates + step - 1, step do
    local last = i < #dates and i or #dates
    reply[#reply + 1] = dates[last] + window - now
    reply[#reply + 1] = (befores[last + 1] - from) % TURN
    from = befores[last + 1]
  end
  reply[9] = (dates[#dates] or newest) + window - now
end
if reply[9] < closed then
  reply[9] = closed
end
return reply
