-- Ledger: who contends for the shard. Writes nothing, creates nothing.
--
-- KEYS   1 head, last ledger: of any algorithm
-- Reply status, contended (0, 1), now, window us, ledger as it is stored
local contends = contended > 0 and contended + 2 * window > now
local ledger = contends and redis.pcall('HGETALL', KEYS[#KEYS]) or {} -- else it may be where it cannot be read
if ledger.err
  or ledger[1] and sub(redis.call('HGET', KEYS[#KEYS], '@LEDGER') or '', 1, #'@LEDGER_KIND') ~= '@LEDGER_KIND' then
  return {-1, #KEYS, ledger.err}
end
return {head and 1 or 0, contends and 1 or 0, now, window, ledger}
