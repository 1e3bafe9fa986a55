--@needs WRAP base before befores closed crests damaged dates epoch head newest now share start
--@needs target total used window
--@sets share
-- Peek: what a take that asks for nothing would find. Writes nothing, creates nothing.
--
-- Reply status, epoch, target, share, start, used, window us, quarantine left us, reset us, number
-- of crests (0: nothing is booked ahead),
--       then of each crest in us (0: not ahead of the clock), permits, permits up to its end: see
--       slidinglog_crests.lua, then in us, permits of each release, oldest first: at most 32,
--       neighbours merged into the later one
if not head then
  return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
end
if damaged then
  return {-1, 2}
end
--@include quarantine
if share > target and closed == 0 then
  local held = used > target and used or target
  if held < share then
    share = held
  end
end
local reply = {1, epoch, target, share, start, used, window, closed, 0, 0}
if newest > now then
  --@include slidinglog_crests
  for _, crest in ipairs(crests) do
    local last = #reply
    reply[last + 1], reply[last + 2], reply[last + 3] = crest[1] > now and crest[1] - now or 0, crest[2], crest[3]
  end
  reply[@peek.crests] = #crests
end
if used > 0 then
  --@include slidinglog_dates
  befores[#befores + 1] = before
  if total ~= before then
    dates[#dates + 1] = newest
    befores[#befores + 1] = total
  end
  local step, from = math.ceil(#dates / @MAX_RELEASES), base
  for i = step, #dates + step - 1, step do
    local last = i < #dates and i or #dates
    reply[#reply + 1] = dates[last] + window - now
    reply[#reply + 1] = (befores[last + 1] - from) % WRAP
    from = befores[last + 1]
  end
  reply[@peek.reset] = (dates[#dates] or newest) + window - now
end
if reply[@peek.reset] < closed then
  reply[@peek.reset] = closed
end
return reply
