--@needs again begun booked calm closed contending falls groups reply share start target
-- One-string algorithms, take, at the end: what the caller cannot know if all is as it proposed,
-- nothing is booked, nobody contends and it asked for permits. Where it is told, the next call
-- comes here, too.
if not calm or booked or begun or contending or groups == 0 then
  --@include packed_rest
  if groups == 0 and falls and share > target and closed == 0 and again > 0 then
    reply[@reply.next] = falls()
  end
  reply[@reply.start] = start
  --@include reply_layout
end
