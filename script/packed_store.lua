--@needs FORM MAGIC burst closed_until contended epoch format now offset share start target text
--@needs window
-- One-string algorithms: writes the state, which keeps its time to live.
local state = format(FORM, MAGIC, epoch, target, share, start, window, closed_until, offset, now, burst, contended)
  .. text()
local done = redis.pcall('SET', KEYS[1], state, 'KEEPTTL')
if type(done) == 'table' and done.err then
  return {-2, done.err}
end
