--@needs blob born epoch now settled status
-- Read a limit's record and, for a participant, say that it is there.
--
-- KEYS  1 record: HASH epoch, settled (0, 1), born (us of this node's clock), blob
--       2 participants: ZSET name, last seen (us)
-- ARGV  1 participant ('': pure read, nothing is written)  2 participant's time to live us
--       3 record's time to live ms
-- Reply status (1; 0 no record; -1 with the number of the foreign key; -2 with the server's
-- refusal), epoch, settled, now us, age us, participants, blob
local MOST, STEP = 10000, 64 -- members, and members forgotten in one call
local age = now > born and now - born or 0
local kind = redis.call('TYPE', KEYS[2]).ok
if kind ~= 'none' and kind ~= 'zset' then
  return {-1, 2}
end
local ttl = ARGV[2] + 0
local alive = string.format('(%d', now - ttl)
if ARGV[1] ~= '' then
  -- One that was seen in the far future was seen before the clock went back: it is forgotten like
  -- one not seen for long.
  local old = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', string.format('%d', now - ttl), 'LIMIT', '0', STEP)
  for _,
    name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], string.format('(%d', now + ttl), '+inf', 'LIMIT', '0', STEP)) do
    old[#old + 1] = name
  end
  if redis.call('ZCARD', KEYS[2]) < MOST or redis.call('ZSCORE', KEYS[2], ARGV[1]) or #old > 0 then
    local done = redis.pcall('ZADD', KEYS[2], string.format('%d', now), ARGV[1])
    if type(done) == 'table' then
      return {-2, done.err}
    end
  end
  local gone = {}
  for _, name in ipairs(old) do
    if name ~= ARGV[1] then
      gone[#gone + 1] = name
    end
  end
  if #gone > 0 then
    redis.call('ZREM', KEYS[2], unpack(gone))
  end
  redis.call('PEXPIRE', KEYS[2], string.format('%d', math.ceil(ttl / 1000)))
end
if ARGV[1] ~= '' and status == 1 then
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
end
return {status, epoch, settled, now, age, redis.call('ZCOUNT', KEYS[2], alive, '+inf'), blob}
