-- Fairness, before a booking: while participants contend, what is booked is paid from credit like
-- what is taken, or it would be a way around one's part.
--
-- ARGV  3 permits; 7.. unless the caller is anonymous: id, weight in thousandths, permits that
--       blocked callers wait for
-- Gives `pay`, the us until the participant's credit can pay for the `permits`; how many are `kept`
-- for who wants single ones; and, if there is something to write, its account.
local permits, pay, kept, account, goal = ARGV[3] + 0, 0, 0, nil, max(share, target)
if contended > 0 and contended + 2 * window > now and closed == 0 and ARGV[9] then
  local sound, a = pcall(open, ARGV[7], ARGV[8] + 0, 0, ARGV[9] + 0, now, window, goal, permits, true)
  if sound then
    local want = min(permits, a.depth)
    if a.part > 0 and a.credit < want and (a.heavy or a.credit < 0) then
      pay = ceil(min((want - a.credit) * window / a.part, @MOST))
    end
    kept, account = permits > 1 and floor(a.header.owed / @MILLI) or 0, a
  elseif type(a) == 'table' and a[1] then
    return a
  else
    redis.pcall('DEL', KEYS[#KEYS])
  end
end
-- Writes down that the permits come in `back` us, or should have.
local function charge(a, granted, back)
  if granted > 0 then
    a.used, a.changed = min(a.used + 2 * granted * @MILLI, @MOST), true
    if a.part > 0 then
      a.credit = a.credit - granted
      a.empty = emptied(a.credit, a.rate, now, window)
    end
  end
  stay(a, permits, permits, back, false, now, window, goal)
  write(a, window)
end
