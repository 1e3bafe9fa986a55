--@needs a closed contended floor format goal min now pay save stay stored sub window
--@gives charge id ids known pay permits share unmet waiting weight
-- Fairness, before a booking: while participants contend, what is booked is paid from credit like
-- what is taken, or it would be a way around one's part.
--
-- ARGV  3 permits; 7.. unless the caller is anonymous: id, weight in thousandths, permits that
--       blocked callers wait for
-- Gives `pay`, the us until the participant's credit can pay for the `permits`, and, if there is
-- something to write, charge(granted), to be called at the end.
local permits, pay, charge = ARGV[3] + 0, 0, nil
if contended > 0 and contended + 2 * window > now and closed == 0 and ARGV[9] then
  local ids = {ARGV[7]}
  --@include fair_header
  local sound, us, finish = pcall(function()
    local share = goal
    --@include fair_ledger
    local id, known, weight, unmet, waiting = ids[1], stored[2], ARGV[8] + 0, 0, ARGV[9] + 0
    --@include fair_open
    local want, wait = min(permits * @MICRO, floor(a.depth * @MICRO)), 0
    if a.e > 0 and a.now < want and (a.heavy > 0 or a.now < 0) then
      wait = math.ceil(min((want - a.now) * window / (a.e * @MICRO), @MOST))
    end
    return wait, function(granted)
      if granted > 0 then
        pay(a, granted)
      else
        stay(a)
      end
      if save() then
        redis.pcall('PEXPIRE', KEYS[#KEYS], format('%d', sub(ARGV[2], @terms.life) + 0))
      end
    end
  end)
  if sound then
    pay, charge = us, finish
  else
    redis.pcall('DEL', KEYS[#KEYS])
  end
end
