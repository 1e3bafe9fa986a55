--@needs sub
--@gives header
-- Fairness: reads the header of the ledger, '' where there is none or one of another version, which
-- is thrown away.
local header = redis.pcall('GETRANGE', KEYS[#KEYS], '0', '@ledger.weights.end')
if type(header) ~= 'string' or (header ~= '' and sub(header, @ledger.kind) ~= '@ledger.kind.form') then
  return {-1, #KEYS, header.err}
end
if sub(header, @ledger.version) ~= '@ledger.version.form' then
  header = ''
end
