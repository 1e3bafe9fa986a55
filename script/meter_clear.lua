--@needs FORM MAGIC begin burst closed_until contended epoch format head now offset share start
--@needs target text window
--@sets closed_until contended share
-- One-string algorithms, clear: forget usage and lift a quarantine; epoch, share, window and the time to live stay. Creates nothing.
--
-- Reply status, epoch, share
if not head then
  return {0, 0, 0}
end
if share > target then
  share = target
end
closed_until, contended = 0, 0
begin()
local state = format(FORM, MAGIC, epoch, target, share, start, window, closed_until, offset, now, burst, contended) .. text()
local done = redis.pcall('SET', KEYS[1], state, 'KEEPTTL')
if type(done) == 'table' and done.err then
  return {-2, done.err}
end
return {1, epoch, share}
