-- Fairness: the counters of an account, used by takes and by bookings and refunds. Wants cell, here, now, window, share, weights (of those
-- who had a demand when the last pass ended), floor, max and min.
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
-- Notes whether its callers have been waiting in the last span of us.
local function wait(a, waiting, span)
  local target = waiting > 0 and 1000000000 or 0
  a.waited = a.waited + floor((target - a.waited) * (min(span * 2, window) / window))
end
-- Notes what a participant wants.
local function state(a, waiting, span)
  local used = floor(a.used * 1000 + a.used_before * 1000 * here / window)
  local greatest = max(used, a.used * 1000, a.used_before * 1000)
  local backed, kept = greatest * 2 + 4000, 0
  local since = now - a.denied
  if since >= -2 * window and since * 2 <= window then
    backed = max(backed, floor(share * 1000 * a.weight / max(weights, a.weight) / 2))
    used = greatest
    if a.waited * 2 >= 1000000000 then
      kept = floor(a.claim * max(2 * window - max(span, 1), 0) / (2 * window))
    end
  end
  local reported = used + floor(a.turned + a.turned_before * here / window) + waiting * 1000
  local unhindered = backed
  if a.waited * 2 < 1000000000 then
    unhindered = floor(used * 1000000000 / (1000000000 - a.waited))
  end
  a.claim = max(min(max(reported, unhindered), backed), kept)
end
-- What the shared account was charged for the first ask of a name that has come back is its own.
local function settle(a, s)
  a.cell = (a.filled - a.filled % window) / window
  roll(s)
  if s.cell == a.cell then
    s.used, s.turned, s.turned_before = max(0, s.used - a.used), max(0, s.turned - a.turned), max(0, s.turned_before - a.turned_before)
  elseif s.cell == a.cell + 1 then
    s.used_before, s.turned_before = max(0, s.used_before - a.used), max(0, s.turned_before - a.turned)
  end
  state(s, 0, window)
end
