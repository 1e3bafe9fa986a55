--@needs as_proposed share sub target
--@gives goal
-- Fairness: by what participants are paced. While a share rises to its target, permits leave the
-- window elsewhere as fast as if it were all here, and come here at once. So takes, bookings and
-- settlements reckon as if it were.
local goal = as_proposed and sub(ARGV[1], @proposal.target) + 0 or target
if goal < share then
  goal = share
end
