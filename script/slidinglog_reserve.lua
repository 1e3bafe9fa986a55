--@needs as_proposed available closed closed_until leave now pay permits queue share sub target used
--@needs waits window
--@gives date granted paced refused
-- Reserve: take permits, all or none, at the first instant at which there is room for them: now, or
-- behind everything that is booked, at most a window ahead. In quarantine nothing is booked: there
-- is no telling what has room yet.
--
-- ARGV  1, 2 the proposal, as slidinglog_settle.lua says  3 permits  4 longest delay us
--       6 least delay us
--       7.. the caller, as fair_charge.lua says, which comes before
-- Reply as slidinglog_enter.lua makes it, with the date in place of now; then delay us, and pay if
-- it is why nothing was booked, else 0. Refused: retry is the delay there would be.
local paced = 0
--@include slidinglog_available
local date, granted, refused = now, 0, nil
local most = (as_proposed or share < target) and share or target
if permits <= available and ARGV[6] == '0' and pay == 0 then
  granted = permits
elseif permits > most then
  refused = permits
else
  --@include slidinglog_rest
  --@include slidinglog_leave
  date = now + ARGV[6]
  if queue ~= '' and date < sub(queue, @pending.date[..#queue]) + 0 then
    date = sub(queue, @pending.date[..#queue]) + 0
  end
  if date < closed_until then
    date = closed_until
  end
  local gone = used + waits + permits - most
  if gone > 0 and date < now + leave(gone) then
    date = now + leave(gone)
  end
  if date - now < pay then
    paced = pay
    date, refused = now + paced, permits
  elseif closed == 0 and date - now <= ARGV[4] + 0 and date - now <= window then
    granted = permits
  else
    refused = permits
  end
end
