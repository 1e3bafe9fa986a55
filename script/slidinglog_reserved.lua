--@needs ahead as_proposed closed date epoch granted now paced reply retry share sub target
--@sets date epoch target
-- Reserve, after the permits were entered.
if granted > 0 then
  reply[6] = date
else
  if retry >= 0 then
    reply[8] = date - now
  end
  date = now
end
if as_proposed then
  epoch, target = sub(ARGV[1], @proposal.epoch) + 0, sub(ARGV[1], @proposal.target) + 0
end
reply[10], reply[11], reply[12], reply[13], reply[14], reply[15] = closed, epoch, target, share, date - now, ahead
reply[16] = paced
