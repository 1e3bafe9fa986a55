--@needs as_proposed closed contending epoch gave groups reply share start target
-- Token bucket, take, at the end: as meter_taken.lua, then permits that no longer have room, for a
-- caller that asked for none.
if not as_proposed or contending or closed > 0 or groups == 0 then
  --@include meter_rest
  reply[@reply.start], reply[@reply.closed] = start, closed
  reply[@reply.epoch], reply[@reply.target], reply[@reply.share] = epoch, target, share
  if groups == 0 then
    reply[@take.gave] = gave
  end
end
