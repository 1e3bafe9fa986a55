-- Fairness, before a booking: while participants contend, what is booked is paid from credit like
-- what is taken, or it would be a way around one's part.
--
-- ARGV  7 id  8 weight in thousandths  9 permits that blocked callers wait for
-- Gives in how many us the participant's credit can pay for the permits; how many are kept for who
-- wants single ones; and what is to be called at the end, with how many were granted, and in how
-- many us they come, or should. It raises what fair_header.lua raises.
local function charge(permits, goal, now, window)
  local floor, ceil, max, min, sqrt = math.floor, math.ceil, math.max, math.min, math.sqrt
  local id, weight, unmet, waiting, batch = ARGV[7], ARGV[8] + 0, 0, ARGV[9] + 0, permits
  --@include fair_open
  local want, wait = min(permits, depth), 0
  if part > 0 and credit < want and (heavy or credit < 0) then
    wait = ceil(min((want - credit) * window / part, @MOST))
  end
  h = h or header(id, now, window)
  local kept = permits > 1 and permits * 16 >= goal and floor(h.owed / @MILLI) or 0 -- by a large booking
  return wait, kept, function(granted, back)
    if granted > 0 then
      used, changed = min(used + 2 * granted * @MILLI, @MOST), true
      if part > 0 then
        credit = credit - granted
        empty = max(now - max(floor(credit * @MILLI * window / rate + 0.5), -@MOST), 0)
      end
    end
    local first, unserved, booked = permits, permits, false -- it books
    --@include fair_stay
    --@include fair_write
  end
end
