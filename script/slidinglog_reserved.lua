--@needs ahead as_proposed closed date epoch granted now paced reply retry share sub target
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
reply[@reply.closed] = closed
reply[@reply.epoch], reply[@reply.target], reply[@reply.share] = epoch, target, share
reply[@reserve.delay], reply[@reserve.booked], reply[@reserve.paced] = date - now, ahead, paced
