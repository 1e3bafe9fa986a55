-- Sliding log, between trim and the grants: quarantine, and what the share comes to under the proposal.
--
-- ARGV  1 epoch (0: create nothing)  2 target  3 floor  4 window us  5 time to live ms  6 flags: 1 seen + 2 quarantine
--       7 known us: how long the limit is known to have existed
if damaged then
  -- The log was evicted while its head stayed: what it held is forgotten, and may still be in use.
  base, before, entries, oldest, opened, newest, used = total, total, 0, 0, now, now, 0
  trimmed, discard, renew, status, closed_until = false, true, true, 2, 0
  if quarantine then
    status, closed_until = 3, now + window
  end
end
local closed = 0
if closed_until > now then
  closed = closed_until - now
end
-- Lowering: the share follows the log down to its target; in quarantine the log does not tell what is in use, so it waits.
if share > target and closed == 0 then
  local held = used > target and used or target
  if held < share then
    share, rewrite = held, true
  end
end
if epoch == proposed and share < target then
  local floor = ARGV[3] + 0
  if floor > target then
    floor = target
  end
  if share < floor then
    share, rewrite = floor, true
  end
end
