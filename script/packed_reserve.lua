-- One-string algorithms, reserve: grant permits at once, or book them for the first instant at
-- which there is room.
--
-- ARGV  3 permits  4 us: how far ahead they may be  6 us: how far ahead they must be
--       7.. unless the caller is anonymous: see fair_charge.lua
-- Reply as packed_reply.lua makes it, where retry is the delay the permits would have had; delay
--       until the permits may be used us, pay if it is why nothing was booked, else 0
local permits, finish = ARGV[3] + 0, nil
local pay, kept = 0, 0 -- us until credit can pay; permits for who wants single ones
if contended > 0 and contended + 2 * window > now and closed == 0 and ARGV[9] then
  local sound, us, singles, writes = pcall(charge, permits, max(share, target), now, window)
  if sound then
    pay, kept, finish = us, singles, writes
  elseif type(us) == 'table' and us[1] then
    return us
  else
    redis.pcall('DEL', KEYS[#KEYS])
  end
end
local available, delay, retry_in, granted, at, paced = 0, 0, 0, 0, now, 0
if closed > 0 then
  retry_in = permits <= most and closed or -1
else
  available = free()
  local us, bookable = earliest(permits, ARGV[6] + 0, kept)
  -- a window, or as long as a burst takes to come
  local most_ahead = target > 0 and burst > target and floor(window * burst / target) or window
  if us >= 0 and us < pay then
    paced = pay
    retry_in = paced
  elseif us == 0 or bookable and us > 0 and us <= ARGV[4] + 0 and us <= most_ahead then
    granted, delay, renew = permits, us, true
    at = book(permits, us)
    available = free() + permits -- what stays free beside it
  else
    retry_in = us
  end
end
--@include packed_reply
reply[@reserve.delay], reply[@reserve.paced] = delay, paced
if finish then
  pcall(finish, granted, max(delay, retry_in))
end
return reply
