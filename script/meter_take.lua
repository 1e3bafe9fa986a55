-- One-string algorithms, take: grant permits. A denial that moves neither share nor offset writes nothing.
--
-- ARGV  9 number of groups of asks, plus 64 if seats carry reports; then size, count, seat of each; seats follow, which are not looked at
-- Reply status, epoch, target, share, start, free before, granted, used, what refund needs, next us, retry us (-1 never), reset us,
--       quarantine left us, delay of the first permit us + a part of a us over share, window us
local available = 0
if closed == 0 then
  available = free()
end
local left, refused = available, nil
for i = 10, 7 + 3 * (ARGV[9] % 64), 3 do
  local size, count = ARGV[i] + 0, ARGV[i + 1] + 0
  local fit = floor(left / size)
  if fit < count then
    count = fit
    refused = refused or size
  end
  left = left - count * size
end
local granted = available - left
local delay, part, wait = 0, 0, 0
if granted > 0 then
  delay, part = pace()
  grant(granted)
  renew = true
end
if refused then
  wait = retry(refused)
  if closed > 0 then
    wait = refused <= most and closed or -1
  end
end
local at, second, third = receipt(), part, window
