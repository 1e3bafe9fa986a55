-- Take: propose a share, grant permits. A denial that moves neither share nor offset writes nothing.
--
-- ARGV  1 to 7 the proposal, as slidinglog_settle.lua says  8.. size, count of each group of asks, at most 32 groups
-- Reply as slidinglog_enter.lua makes it
local date = now
local free = 0
if closed == 0 and used < share then
  free = share - used
end
local left, refused = free, nil
for i = 8, #ARGV - 1, 2 do
  local size, count = ARGV[i] + 0, ARGV[i + 1] + 0
  local fit = math.floor(left / size)
  if fit < count then
    count = fit
    refused = refused or size
  end
  left = left - count * size
end
local granted = free - left
