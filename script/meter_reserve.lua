-- One-string algorithms, reserve: grant permits for now, or book them for the first instant at which there is room.
--
-- ARGV  9 permits  10 us: how far ahead they may be  11 how many permits, these included, may be booked ahead  12 us: how far ahead they must be
-- Reply as meter_reply.lua makes it, but for its end: delay until the permits may be used us, permits booked ahead, 0; retry is the delay they would have had
local want = ARGV[9] + 0
local available, delay, wait, granted, at = 0, 0, 0, 0, now
if closed > 0 then
  wait = want <= most and closed or -1
else
  available = free()
  local us, room = promise(want, ARGV[12] + 0)
  if us == 0 or room and us > 0 and us <= ARGV[10] + 0 and booked() + want <= ARGV[11] + 0 then
    granted, delay, renew = want, us, true
    at = book(want, us)
  else
    wait = us
  end
end
local second, third = booked(), 0
