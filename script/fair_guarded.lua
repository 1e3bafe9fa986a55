-- Fairness, in a full take: a ledger that is damaged is thrown away.
local sound, foreign = pcall(function()
  --@include fair_serve
end)
if not sound then
  contending, left, refused = false, available, nil
  redis.pcall('DEL', KEYS[#KEYS])
elseif foreign then
  return foreign
end
