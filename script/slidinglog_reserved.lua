-- Reserve, after the permits were entered.
if granted > 0 then
  reply[9] = date
else
  if retry >= 0 then
    reply[11] = date - now
  end
  date = now
end
reply[14], reply[15] = date - now, ahead
return reply
