-- Fairness: the counters of an account, used by takes and by bookings and refunds. Wants cell, here, now, window, floor and min.
local function roll(a)
  if a.cell ~= cell then
    if a.cell == cell - 1 then
      a.used_before, a.turned_before = a.used, a.turned
    else
      a.used_before, a.turned_before = 0, 0
    end
    a.used, a.turned, a.cell = 0, 0, cell
  end
end
local function state(a, waiting)
  local used = floor(a.used * 1000 + a.used_before * 1000 * here / window)
  a.claim = min(used + floor(a.turned + a.turned_before * here / window) + waiting * 1000, used * 2 + 4000)
end
