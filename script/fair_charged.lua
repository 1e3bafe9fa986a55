--@needs charge granted reply share
-- Fairness, the end of reservations: what fair_charge.lua has to write down. Where too much is
-- booked ahead and the participant could pay, it is refused until there may be room.
if charge then
  local late, delayed = reply[@reserve.delay] + reply[@reserve.paced], reply[@reply.retry]
  if granted == 0 and late == 0 and delayed >= 0 and delayed <= ARGV[4] + 0 then
    local filled = math.floor(ARGV[5] * string.sub(ARGV[2], @terms.window) / math.max(share, 1))
    late = math.max(0, delayed - math.min(filled, @FARTHEST))
  end
  pcall(charge, granted, late)
end
return reply
