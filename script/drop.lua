-- Drop: deletes all keys of a shard, if state and ledger are ours.
--
-- KEYS  1 state  2 ledger
-- Reply status (1 deleted, 0 nothing there, -1 with the number of the foreign key: nothing deleted,
--       -2 with the server's refusal)
local head = redis.pcall('GET', KEYS[1])
if head and (type(head) ~= 'string' or not string.find(head, '^@MAGIC%d+ ')) then
  return {-1, 1, head.err}
end
local ledger = redis.pcall('HGET', KEYS[#KEYS], '@LEDGER')
if type(ledger) == 'table' or ledger and string.sub(ledger, 1, #'@LEDGER_KIND') ~= '@LEDGER_KIND'
  or not ledger and redis.pcall('EXISTS', KEYS[#KEYS]) == 1 then
  return {-1, #KEYS, ledger and ledger.err or nil}
end
local gone = redis.pcall('DEL', unpack(KEYS))
return type(gone) == 'table' and {-2, gone.err} or {gone > 0 and 1 or 0}
