-- Ledger: who contends for the shard. Writes nothing, creates nothing.
--
-- KEYS   1 head, last ledger: of any algorithm
-- Reply status, contended (0, 1), now, window us, permits a window by which participants are paced,
--       ledger as it is stored
local contends = contended > 0 and contended + 2 * window > now
local ledger = {}
if contends then -- else it may be where it cannot be read
  ledger = redis.pcall('HGETALL', KEYS[#KEYS])
  local known = ledger.err or redis.call('HGET', KEYS[#KEYS], '@LEDGER') or ''
  if ledger.err or #ledger > 0 and sub(known, 1, #'@LEDGER_KIND') ~= '@LEDGER_KIND' then
    return {-1, #KEYS, ledger.err}
  end
end
return {head and 1 or 0, contends and 1 or 0, now, window, math.max(share, target), ledger}
