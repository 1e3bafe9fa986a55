-- Take, the calm case: grants all that is asked for, or as much as there is.
n = some == 1 and math.min(n, room) or n
if n > room or n < 0 then
  break
elseif n == 0 then
  answer = pack('@told.form', 0, soonest, newest + window - now, returned > now - window and 1 or 0)
  break
end
