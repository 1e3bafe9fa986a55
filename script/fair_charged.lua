--@needs charge granted reply
-- Fairness, the end of reservations: what fair_charge.lua has to write down.
if charge then
  pcall(charge, granted)
end
return reply
