-- slidinglog_drop = away + slidinglog_drop + drop with slidinglog_logged, slidinglog_foreign
-- [away.lua]
-- Whether a server said that a key is not there although only its slot is on its way: then it is
-- not known whether there is one.
local function away(reply)
  return string.find(reply.err, 'non local key', 1, true)
end
-- [slidinglog_drop.lua]
-- Sliding log, drop: whether head and log are ours. Needs no clock.
--
-- KEYS  1 head  2 log  3 ledger
local head = redis.pcall('GET', KEYS[1])
if head and (type(head) ~= 'string' or #head ~= 249
  or string.sub(head, 1, 4) ~= 'SLG2') then
  return {-1, 1, head.err}
end
-- [slidinglog_logged.lua]
-- Sliding log, clear and drop: `logged`, whether there is a log that is known to be one.
local kind = redis.pcall('TYPE', KEYS[2])
if kind.err and not away(kind) then
  return {-1, 2, kind.err}
end
local logged = kind.ok and kind.ok ~= 'none'
if logged then
  -- [slidinglog_foreign.lua]
  -- Sliding log: there is something where the log belongs, is it a log?
  local member = redis.pcall('ZRANGE', KEYS[2], '0', '0')
  if member.err or #member[1] ~= 42 then
    return {-1, 2, member.err}
  end
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
