--@needs ids sub
--@gives stored
-- Fairness: reads the header of the ledger and the accounts of `ids`.
local stored = redis.pcall('HMGET', KEYS[#KEYS], '@LEDGER', unpack(ids))
if stored.err or stored[1] and sub(stored[1], @ledger.kind) ~= '@ledger.kind.form'
  or not stored[1] and redis.call('EXISTS', KEYS[#KEYS]) == 1 then
  return {-1, #KEYS, stored.err}
end
