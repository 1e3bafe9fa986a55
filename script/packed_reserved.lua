-- One-string algorithms, reserve, at the end: delay until the permits may be used us, pay if it is
-- why nothing was booked, else 0. Then what fair_charge.lua has to write.
reply[@reserve.delay], reply[@reserve.paced] = delay, paced
if charge then
  pcall(charge, granted, math.max(delay, retry_in))
end
