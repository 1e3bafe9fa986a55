-- How much of the quarantine is left, us.
local closed = math.max(closed_until - now, 0)
