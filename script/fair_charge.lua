-- Fairness, before a booking: while participants contend, what is booked is paid from credit like
-- what is taken, or it would be a way around one's part.
--
-- ARGV  3 permits; 7.. unless the caller is anonymous: id, weight in thousandths, permits that
--       blocked callers wait for
-- Gives `pay`, the us until the participant's credit can pay for the `permits`; how many are `kept`
-- for who wants single ones; and, if there is something to write, charge(granted, in how many us
-- they come, or it should), to be called at the end.
local permits, pay, kept, charge = ARGV[3] + 0, 0, 0, nil
if contended > 0 and contended + 2 * window > now and closed == 0 and ARGV[9] then
  local sound, foreign, us, finish = pcall(function()
    local floor, ceil, max, min, sqrt = math.floor, math.ceil, math.max, math.min, math.sqrt
    local id, weight, unmet, waiting = ARGV[7], ARGV[8] + 0, 0, ARGV[9] + 0
    local goal, batch = max(share, target), permits
    --@include fair_open
    local want, wait = min(permits, depth), 0
    if part > 0 and credit < want and (heavy or credit < 0) then
      wait = ceil(min((want - credit) * window / part, @MOST))
    end
    if not sums then
      --@include fair_sums
    end
    kept = permits > 1 and floor(owed / @MILLI) or 0
    return nil, wait, function(granted, back)
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
  end)
  if not sound then
    redis.pcall('DEL', KEYS[#KEYS])
  elseif foreign then
    return foreign
  else
    pay, charge = us, finish
  end
end
