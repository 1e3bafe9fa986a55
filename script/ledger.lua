--@needs contended goal head now sub window
-- Ledger: who contends for the shard. Writes nothing, creates nothing.
--
-- KEYS   1 head, last ledger: of any algorithm
-- Reply status, contended (0, 1), now, window us, permits a window by which participants are paced,
--       ledger as it is stored
local contends = contended > 0 and contended + 2 * window > now
local ledger = contends and redis.pcall('GET', KEYS[#KEYS])
if ledger and type(ledger) ~= 'string' or ledger and sub(ledger, @ledger.kind) ~= '@ledger.kind.form' then
  return {-1, #KEYS, ledger.err}
end
--@include fair_pace
return {head and 1 or 0, contends and 1 or 0, now, window, goal, contends and ledger or ''}
