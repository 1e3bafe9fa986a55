-- One-string algorithms, drop: whether the state is ours. Needs no clock.
--
-- KEYS  1 state  2 ledger
local head = redis.pcall('GET', KEYS[1])
if head and (type(head) ~= 'string' or not string.find(head, '^@MAGIC%d+ ')) then
  return {-1, 1, head.err}
end
