--@needs as_proposed closed contending epoch gave groups reply share start target
-- Token bucket, take, at the end: as meter_taken.lua, then permits that no longer have room, for a caller that asked for none.
if not as_proposed or contending or closed > 0 or groups == 0 then
  --@include meter_rest
  reply[2], reply[10], reply[11], reply[12], reply[13] = start, closed, epoch, target, share
  if groups == 0 then
    reply[14] = gave
  end
end
