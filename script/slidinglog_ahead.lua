--@needs WRAP before format newest now oldest sub total
--@gives ahead
-- Reserve, before anything else: permits booked ahead, `ahead`.
--@include slidinglog_rest
local ahead = 0
if newest > now then
  local member =
    oldest > 0 and redis.pcall('ZRANGEBYSCORE', KEYS[2], format('(%d', now), '+inf', 'LIMIT', '0', '1') or {}
  if member.err then
    return {-1, 2, member.err}
  end
  ahead = (total - (member[1] and sub(member[1], @entry.before) or before)) % WRAP
end
