--@needs closed newest now room share used
--@gives available
-- Sliding log, take and reserve: what can be granted now.
local available = 0
if closed == 0 and newest > now then
  --@include slidinglog_crests
  available = room
elseif closed == 0 and used < share then
  available = share - used
end
