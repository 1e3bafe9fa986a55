-- Sliding log, drop: whether head and log are ours. Needs no clock.
--
-- KEYS  1 head  2 log  3 ledger
local head = redis.pcall('GET', KEYS[1])
if head and (type(head) ~= 'string' or #head < @head.bytes or (#head - @head.bytes) % @pending.bytes ~= 0
  or string.sub(head, @head.magic) ~= '@head.magic.form') then
  return {-1, 1, head.err}
end
--@include slidinglog_logged
