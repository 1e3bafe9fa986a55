--@needs as_proposed date granted now paced reply retry sub
--@sets date epoch target
-- Reserve, after the permits were entered.
if granted > 0 then
  reply[@reply.at] = date
else
  if retry >= 0 then
    reply[@reply.retry] = date - now
  end
  date = now
end
if as_proposed then
  epoch, target = sub(ARGV[1], @proposal.epoch) + 0, sub(ARGV[1], @proposal.target) + 0
end
--@include reply_layout
reply[@reserve.delay], reply[@reserve.paced] = date - now, paced
