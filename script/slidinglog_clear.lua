--@needs FORM LAYOUT away epoch format head now offset share start target total window
--@sets share
-- Clear: forget usage and lift a quarantine; epoch, share, window and the time to live stay.
-- Creates nothing.
--
-- Reply status, epoch, share
if not head then
  return {0, 0, 0}
end
local kind = redis.pcall('TYPE', KEYS[2])
if kind.err and not away(kind) then
  return {-1, 2, kind.err}
end
local logged = kind.ok and kind.ok ~= 'none'
if logged then
  --@include slidinglog_foreign
end
if share > target then
  share = target
end
local done = redis.pcall('SETRANGE', KEYS[1], '0',
  format(FORM, format(LAYOUT, epoch, target, share), start, window, 0, offset, now, 0, total, 0, now, total, now, total,
  0, 0))
if type(done) == 'table' then
  return {-2, done.err}
end
if logged then
  redis.call('DEL', KEYS[2])
end
return {1, epoch, share}
