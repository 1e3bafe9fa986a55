--@needs cut format oldest sub
--@gives befores dates
-- Sliding log: dates of all closed entries that have not left the window, and the totals before
-- them.
local log = oldest > 0 and redis.pcall('ZRANGEBYSCORE', KEYS[2], format('(%d', cut), '+inf') or {}
if log.err then
  return {-1, 2, log.err}
end
local dates, befores = {}, {}
local sound = pcall(function()
  for i, member in ipairs(log) do
    dates[i], befores[i] = sub(member, @entry.date) + 0, sub(member, @entry.before) + 0
  end
end)
if not sound then
  return {-1, 2}
end
