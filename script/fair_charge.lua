--@needs closed contended goal min note now open pay save window
--@gives charge ids pay permits share
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
  --@include fair_pace
  local sound, us, finish = pcall(function()
    local share = goal
    --@include fair_ledger
    local entry = open(ARGV[7], ARGV[8] + 0, 0, ARGV[9] + 0)
    local want, wait = min(permits * @MICRO, entry.full), 0
    if entry.e > 0 and entry.a.credit < want and (entry.a.claim >= entry.e * @MILLI or entry.a.credit < 0) then
      wait = math.ceil(min((want - entry.a.credit) * window / (entry.e * @MICRO), @MOST))
    end
    return wait, function(granted)
      note(entry.a, granted == 0)
      pay(entry, granted)
      save()
    end
  end)
  if sound then
    pay, charge = us, finish
  else
    redis.pcall('DEL', KEYS[#KEYS])
  end
end
