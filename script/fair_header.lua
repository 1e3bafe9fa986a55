--@needs ids share sub target
--@gives goal stored
-- Fairness: reads the header of the ledger and the accounts of `ids`, and finds out by what
-- participants are paced. While a share rises to its target, permits leave the window elsewhere as
-- fast as if it were all here, and come here at once. So it is as if it were.
local stored, goal = redis.pcall('HMGET', KEYS[#KEYS], '@LEDGER', unpack(ids)), target
if stored.err or stored[1] and sub(stored[1], @ledger.kind) ~= '@ledger.kind.form'
  or not stored[1] and redis.call('EXISTS', KEYS[#KEYS]) == 1 then
  return {-1, #KEYS, stored.err}
end
if goal < share then
  goal = share
end
