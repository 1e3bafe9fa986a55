-- Take, the calm case while participants contend: what it tells beside the rest. That is how many
-- were granted, and when what was refused is there, us; then what fair_settle.lua adds.
if n == 0 then
  soonest, reset = count > 0 and soonest or 0, count > 0 and newest + window - now or 0
end
local reply = {granted, refused and refused > left and soonest or 0}
if remark then
  redis.pcall('SETRANGE', KEYS[1], format('%d', behind - 18), format('%d', contended))
end
--@include fair_settle
replies.told = reply
