-- Take, the calm case while participants contend: tells beside the rest, as columns.Paced, how many
-- were granted, when what was refused is there, us, and what fair.lua has told.
if n == 0 then
  soonest, reset = count > 0 and soonest or 0, count > 0 and newest + window - now or 0
end
local more = pack('@paced.form@paced.form', n, got.refused and got.refused > got.left and soonest or 0)
for i = 1, #got.told do
  more = more .. pack('@paced.form', got.told[i])
end
if got.mark then
  redis.pcall('SETRANGE', key, format('%d', behind - 18), format('%d', got.mark))
  redis.pcall('PEXPIRE', KEYS[#KEYS], @LIFE)
end
