--@needs format n newest now room soonest window
--@sets n text
-- Take, the calm case: grants all that is asked for, or as much as there is.
if n < 0 and room >= 0 then
  n = -n > room and room or -n
end
if not (n >= 0 and n <= room) then
  break
elseif n == 0 then
  text = format('0 %d %d', soonest, newest + window - now)
  break
end
