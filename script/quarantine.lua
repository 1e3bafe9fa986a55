-- How much of the quarantine is left, us.
local closed = 0
if closed_until > now then
  closed = closed_until - now
end
