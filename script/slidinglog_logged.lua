--@gives logged
-- Sliding log, clear and drop: `logged`, whether there is a log that is known to be one.
local kind = redis.pcall('TYPE', KEYS[2])
if kind.err then
  return {-1, 2, kind.err}
end
local logged = kind.ok ~= 'none'
if logged then
  --@include slidinglog_foreign
end
