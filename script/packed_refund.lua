--@needs closed_until epoch free head least now refund reshape share stepped target
--@sets share
--@gives refunded
-- One-string algorithms, refund: give back permits of the grant whose receipt is `at`. Keeps the
-- time to live.
--
-- ARGV  1 permits  2 at
--       3, 4 of whom: see fair_restore.lua
-- Reply status, refunded, free, epoch, share
if not head then
  return {0, 0, 0, 0, 0}
end
local refunded = refund(ARGV[1] + 0, ARGV[2] + 0)
local closed = closed_until > now
local lowered = false
if share > target and not closed then
  --@include packed_least
  if least < share then
    share, lowered = least, true
    reshape()
  end
end
if refunded > 0 or lowered then
  --@include packed_store
elseif stepped then
  --@include stepped
end
--@include fair_restore
return {1, refunded, closed and 0 or free(), epoch, share}
