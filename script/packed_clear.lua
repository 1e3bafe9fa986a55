--@needs begin epoch head share target
--@sets closed_until contended share
-- One-string algorithms, clear: forget usage and lift a quarantine; epoch, share, window and the
-- time to live stay. Creates nothing.
--
-- Reply status, epoch, share
if not head then
  return {0, 0, 0}
end
if share > target then
  share = target
end
closed_until, contended = 0, 0
begin()
--@include packed_store
return {1, epoch, share}
