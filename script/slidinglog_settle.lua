--@needs as_proposed closed damaged entitled epoch now proposed share sub target total window
--@sets base before closed_until discard entries newest oldest opened renew rewrite share start
--@sets status trimmed used
--@gives peak waits written
-- Sliding log, between trim and the grants: quarantine, and what the share comes to under the
-- proposal.
--
-- ARGV  1 how the head begins where nothing is left to settle, with the floor in place of the
--       share; of epoch 0, which creates nothing, its kind and 0
--@layout proposal
--       2 flags: 1 seen + 2 quarantine; window us; known us: how long the limit is
--       known to have existed; burst; deadline us: the node's time until which a state may be
--       created with a share, 0: no end, -1: not at all; held: the most that a state of an older
--       epoch can hold, -1: anything; fence us: the node's time until which the call may do
--       anything, 0: no end; life: time to live of log and accounts ms; to the end, not padded:
--       time to live of the head ms
--@layout terms
if damaged then
  -- The log was evicted while its head stayed: what it held is forgotten, and may still be in use.
  base, before, entries, oldest, opened, newest, used = total, total, 0, 0, now, now, 0
  trimmed, discard, renew, status, closed_until = false, true, true, 2, 0
  if sub(ARGV[2], @terms.flags) + 0 >= 2 then
    status, closed_until = 3, now + window
  end
end
--@include quarantine
local peak, waits
--@include slidinglog_peak
-- Lowering: the share follows the log down to its target. In quarantine it neither falls, as the
-- log does not tell what is in use, nor rises, as the floor may be older than the loss. But what
-- the layout before did not leave to the shard is not its own: drivers count a shard in quarantine
-- with what that left it, and it must not come out with more.
local bottom = entitled or target
if share > bottom and (closed == 0 or entitled) and not as_proposed then
  local held = math.max(bottom, peak, waits)
  if held < share then
    share, rewrite = held, true
  end
end
if entitled then
  start = share
end
if epoch == proposed and share < target and closed == 0 and not as_proposed then
  local floor = sub(ARGV[1], @proposal.floor) + 0
  if floor > target then
    floor = target
  end
  if share < floor then
    share, rewrite = floor, true
  end
end
local written = false -- the whole head was written
