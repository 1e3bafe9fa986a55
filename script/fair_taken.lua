-- Take, the calm case while participants contend: tells beside the rest, as columns.Paced, how many
-- were granted, when what was refused is there, us, and what fair.lua has told.
if n == 0 then
  soonest, reset = count > 0 and soonest or 0, count > 0 and newest + window - now or 0
end
local more = pack('@paced.form@paced.form', n, refused and refused > left and soonest or 0)
for i = 1, #told do
  more = more .. pack('@paced.form', told[i])
end
if mark then
  redis.pcall('SETRANGE', key, format('%d', behind - 18), format('%d', mark))
  redis.pcall('PEXPIRE', KEYS[#KEYS], @LIFE)
end
