-- GCRA as it is usually written: a key holds when its limit will be whole again.
--
-- KEYS[1] the key. ARGV: window divided by permits (us), window (us).
-- Reply: 1 if a permit was granted, else 0.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local whole = math.max(tonumber(redis.call('GET', KEYS[1])) or 0, now) + ARGV[1]
if whole - now > tonumber(ARGV[2]) then
  return 0
end
redis.call('SET', KEYS[1], string.format('%.0f', whole), 'PX', math.ceil((whole - now) / 1000))
return 1
