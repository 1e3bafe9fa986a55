-- One-string algorithms, clear: forget usage; epoch, share, window and the time to live stay. Of a
-- quarantine a little stays: else who believes in what was before the loss would raise the share.
-- Creates nothing.
--
-- Reply status, epoch, share
if not head then
  return {0, 0, 0}
end
if share > target then
  share = target
end
if closed_until > now + @LIFTED_AFTER then
  closed_until = now + @LIFTED_AFTER
end
contended = 0
begin()
--@include packed_store
return {1, epoch, share}
