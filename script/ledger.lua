--@needs contended head now share target window
--@gives ids
-- Ledger: who contends for the shard. Writes nothing, creates nothing.
--
-- KEYS   1 head, last ledger: of any algorithm
-- Reply status, contended (0, 1), now, window us, permits a window by which participants are paced,
--       ledger as it is stored
local contends = contended > 0 and contended + 2 * window > now
local ledger = {}
if contends then -- else it may be where it cannot be read
  local ids = {}
  --@include fair_header
  ledger = redis.call('HGETALL', KEYS[#KEYS])
end
return {head and 1 or 0, contends and 1 or 0, now, window, math.max(share, target), ledger}
