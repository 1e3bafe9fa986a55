--@needs FORM MAGIC burst closed_until contended epoch format free head held now offset refund
--@needs reshape share start stepped target text window
--@sets share
--@gives refunded
-- One-string algorithms, refund: give back permits of the grant whose receipt is `at`. Keeps the time to live.
--
-- ARGV  1 permits  2 at
--       3, 4 of whom: see fair_restore.lua
-- Reply status, refunded, free, epoch, share
if not head then
  return {0, 0, 0, 0, 0}
end
local refunded = refund(ARGV[1] + 0, ARGV[2] + 0)
local closed = closed_until > now
local lowered = false
if share > target and not closed then
  local least = held()
  if least < target then
    least = target
  end
  if least < share then
    share, lowered = least, true
    reshape()
  end
end
if refunded > 0 or lowered then
  local state = format(FORM, MAGIC, epoch, target, share, start, window, closed_until, offset, now, burst, contended) .. text()
  local done = redis.pcall('SET', KEYS[1], state, 'KEEPTTL')
  if type(done) == 'table' and done.err then
    return {-2, done.err}
  end
elseif stepped then
  local done = redis.pcall('SETRANGE', KEYS[1], '@meter.offset.at', format('@meter.offset.form', offset))
  if type(done) == 'table' then
    return {-2, done.err}
  end
end
--@include fair_restore
return {1, refunded, closed and 0 or free(), epoch, share}
