-- One-string algorithms: writes the state, which keeps its time to live. Takes tell by `touched`
-- whether that was set in this sixteenth of a window. So it is made long enough for what they
-- grant.
--@include packed_text
local life = ceil(math.min(reset(), @MAX_FILL) / 1000) + ceil(window / 500)
local done
if now - now % (window / 16) ~= touched - touched % (window / 16) and redis.call('PTTL', KEYS[1]) < life then
  done = redis.pcall('SET', KEYS[1], state, 'PX', format('%d', life))
else
  done = redis.pcall('SET', KEYS[1], state, 'KEEPTTL')
end
if type(done) == 'table' and done.err then
  return {-2, done.err}
end
