--@needs as_proposed closed contending epoch groups head newest now oldest reply share start sub
--@needs target used window
--@sets epoch target
-- Take, after the permits were entered: what the caller cannot know if all is as it proposed,
-- nobody contends and it asked for permits.
if not as_proposed or contending or closed > 0 or groups == 0 then
  if as_proposed and epoch == 0 then -- not read, as calm
    epoch, target = sub(head, @head.epoch) + 0, sub(head, @head.target) + 0
  end
  --@include slidinglog_rest
  if groups == 0 and share > target and closed == 0 and used > 0 then -- when the share falls next
    reply[@reply.next] = (oldest > 0 and oldest or newest) + window - now
  end
  reply[@reply.start] = start
  --@include reply_layout
end
