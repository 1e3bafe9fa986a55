--@needs as_proposed closed contending gave groups reply start
-- Token bucket, take, at the end: as packed_taken.lua, then permits that no longer have room, for a
-- caller that asked for none.
if not as_proposed or contending or closed > 0 or groups == 0 then
  --@include packed_rest
  reply[@reply.start] = start
  --@include reply_layout
  if groups == 0 then
    reply[@take.gave] = gave
  end
end
