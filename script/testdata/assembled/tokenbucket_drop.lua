-- tokenbucket_drop = away + packed_drop + drop
-- [away.lua]
-- Whether a server said that a key is not there although only its slot is on its way: then it is
-- not known whether there is one.
local function away(reply)
  return string.find(reply.err, 'non local key', 1, true)
end
-- [packed_drop.lua]
-- One-string algorithms, drop: whether the state is ours. Needs no clock.
--
-- KEYS  1 state  2 ledger
local head = redis.pcall('GET', KEYS[1])
if head and (type(head) ~= 'string' or string.sub(head, 1, 4) ~= 'TKB3') then
  return {-1, 1, head.err}
end
-- [drop.lua]
-- Drop, once the state is known to be ours: deletes all keys of a shard, if the ledger is ours,
-- too.
--
-- Reply status (1 deleted, 0 nothing there, -1 with the number of the foreign key: nothing deleted,
--       -2 with the server's refusal)
local ledger = redis.pcall('GETRANGE', KEYS[#KEYS], '0', '2')
if type(ledger) == 'table' and away(ledger) then
  ledger = ''
end
if type(ledger) ~= 'string' or (ledger ~= '' and ledger ~= 'SLB') then
  return {-1, #KEYS, ledger.err}
end
local gone = 0
for _, key in ipairs(KEYS) do
  local done = redis.pcall('DEL', key)
  if type(done) ~= 'table' then
    gone = gone + done
  elseif not away(done) then
    return {-2, done.err}
  end
end
return {gone > 0 and 1 or 0}
