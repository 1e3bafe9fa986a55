--@needs again as_proposed closed contending falls groups reply share start target
-- One-string algorithms, take, at the end: what the caller cannot know if all is as it proposed,
-- nobody contends and it asked for permits.
if not as_proposed or contending or closed > 0 or groups == 0 then
  --@include packed_rest
  if groups == 0 and falls and share > target and closed == 0 and again > 0 then
    reply[@reply.next] = falls()
  end
  reply[@reply.start] = start
  --@include reply_layout
end
