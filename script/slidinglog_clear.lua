--@needs FORM LAYOUT epoch format head logged now offset share start target total window
--@sets share
-- Clear: forget usage and lift a quarantine; epoch, share, window and the time to live stay.
-- Creates nothing.
--
-- Reply status, epoch, share
if not head then
  return {0, 0, 0}
end
--@include slidinglog_logged
if share > target then
  share = target
end
local done = redis.pcall('SET', KEYS[1],
  format(FORM, format(LAYOUT, epoch, target, share), start, window, 0, offset, now, 0, total, 0, now, total, now, total,
    0), 'KEEPTTL')
if done.err then
  return {-2, done.err}
end
if logged then
  redis.call('DEL', KEYS[2])
end
return {1, epoch, share}
