--@needs WRAP before closed cut damaged epoch format head newest now oldest queue share start sub
--@needs target total used window
--@sets share used
-- Peek: what a take that asks for nothing would find. Writes nothing, creates nothing.
--
-- Reply status, epoch, target, share, start, used or booked, window us, quarantine left us, reset
-- us, free,
--       then in us, permits of each release, oldest first: at most 32, neighbours merged into the
--       later one
if not head then
  return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
end
if damaged then
  return {-1, 2}
end
--@include quarantine
local log = oldest > 0 and redis.pcall('ZRANGEBYSCORE', KEYS[2], format('(%d', cut), '+inf') or {}
if log.err then
  return {-1, 2, log.err}
end
-- What is due counts as used: the next call that may write moves it into the log.
local dates, permits, peak, waits, sum = {}, {}, 0, 0, 0
local sound = pcall(function()
  for i, member in ipairs(log) do
    local after = log[i + 1] and sub(log[i + 1], @entry.before) + 0 or before
    dates[i], permits[i] = sub(member, @entry.date) + 0, (after - sub(member, @entry.before)) % WRAP
  end
  if used > 0 and total ~= before then
    dates[#dates + 1], permits[#permits + 1] = newest, (total - before) % WRAP
  end
  for from = 1, #queue, @pending.bytes do
    local date, n = sub(queue, @pending.date[from]) + 0, sub(queue, @pending.permits[from]) + 0
    sum = sum + n
    if date > cut then
      dates[#dates + 1], permits[#permits + 1] = date, n
    end
    if date > now then
      local left = sub(queue, @pending.base[from]) + 0
      waits = waits + n
      if sub(queue, @pending.opened[from]) - now < window then
        peak = math.max(peak, left < 0 and used + waits or (total - left) % WRAP + sum)
      end
    elseif date > cut then
      used = used + n
    end
  end
end)
if not sound then
  return {-1, 2}
end
peak = math.max(peak, used)
if share > target and closed == 0 then
  share = math.min(share, math.max(target, peak, waits))
end
local free = closed == 0 and math.max(0, math.min(share, target) - peak) or 0
local reply = {1, epoch, target, share, start, used + waits, window, closed, closed, free}
if used + waits > 0 then
  local step = math.ceil(#dates / @MAX_RELEASES)
  for i = 1, #dates, step do
    local last, n = math.min(i + step - 1, #dates), 0
    for k = i, last do
      n = n + permits[k]
    end
    reply[#reply + 1] = dates[last] + window - now
    reply[#reply + 1] = n
  end
  reply[@peek.reset] = math.max(closed, (dates[#dates] or newest) + window - now)
end
return reply
