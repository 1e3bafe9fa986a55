-- The sliding log as it is usually written: a sorted set with a member for every permit, dated by
-- the node's clock.
--
-- KEYS[1] the set. ARGV: permits, window (us), expiry (ms), a name that no other call has.
-- Reply: {permits granted (1 or 0), permits in use}.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now - ARGV[2]))
local used = redis.call('ZCARD', KEYS[1])
if used >= tonumber(ARGV[1]) then
  return {0, used}
end
redis.call('ZADD', KEYS[1], string.format('%.0f', now), ARGV[4])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return {1, used + 1}
