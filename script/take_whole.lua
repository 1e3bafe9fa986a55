--@needs n newest now room t
--@sets free n reset
-- Take, the calm case: grants all that is asked for, or as much as there is.
if n < 0 and room >= 0 then
  n = -n > room and room or -n
end
if not (n >= 0 and n <= room) then
  break
elseif n == 0 then
  free, reset = 0, newest + t.window - now
  break
end
