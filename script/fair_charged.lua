--@needs charge granted reply share
-- Fairness, the end of reservations: what fair_charge.lua has to write down.
if charge then
  local date = reply[14] + reply[16]
  if granted == 0 and date == 0 and reply[8] >= 0 and reply[8] <= ARGV[4] + 0 then -- too much is booked ahead: there may be room then
    date = math.max(0, reply[8] - math.min(math.floor(ARGV[5] * string.sub(ARGV[2], @terms.window) / math.max(share, 1)), 1e15))
  end
  pcall(charge, granted, date)
end
return reply
