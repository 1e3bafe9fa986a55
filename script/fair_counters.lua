--@needs cell everybody floor here max min now share weights window
--@gives draw lend note_claim note_waiting pour roll settle
-- Fairness: the counters of an account, used by takes and by bookings and settlements. `weights` is
-- that of those who had a demand when the last pass ended.
local function roll(a)
  if a.cell ~= cell then
    if a.cell == cell - 1 then
      a.used_before, a.unmet_before = a.used, a.unmet
    else
      a.used_before, a.unmet_before = 0, 0
    end
    a.used, a.unmet, a.cell = 0, 0, cell
  end
end
-- Notes whether its callers have been waiting in the last span of us.
local function note_waiting(a, waiting, elapsed)
  local aim = waiting > 0 and @GIGA or 0
  a.waited = a.waited + floor((aim - a.waited) * (min(elapsed * 2, window) / window))
end
-- Notes what a participant wants. booking is how many permits it books ahead, 0: none.
local function note_claim(a, waiting, elapsed, booking)
  local in_use = floor(a.used * @MILLI + a.used_before * @MILLI * here / window)
  local greatest = max(in_use, a.used * @MILLI, a.used_before * @MILLI)
  local backed, kept = greatest * @BACKED_TIMES + @BACKED_MORE, 0
  local passed = now - a.denied
  if passed >= -@RECENTLY * window and passed * 2 <= window then
    backed = max(backed, floor(share * @MILLI * a.weight / max(weights, a.weight) / 2))
    in_use = greatest
    if a.waited * 2 >= @GIGA then
      kept = floor(a.claim * max(2 * window - max(elapsed, 1), 0) / (2 * window))
    end
  end
  if booking > 0 and a.credit >= 0 then
    backed = max(backed, min(booking * @MILLI, floor(share * 2000 * a.weight / max(weights, a.weight))))
  end
  local reported = in_use + floor(a.unmet + a.unmet_before * here / window) + waiting * @MILLI
  local unhindered = backed
  if a.waited * 2 < @GIGA then
    unhindered = floor(in_use * @GIGA / (@GIGA - a.waited))
  end
  a.claim = max(min(max(reported, unhindered), backed), kept)
end
-- Takes credit from what was lent, as far as the bucket holds it.
local function draw(a, limit)
  if a.lent > 0 and a.credit < limit then
    local drawn = min(a.lent, limit - a.credit)
    a.credit, a.lent = a.credit + drawn, a.lent - drawn
  end
end
-- Gives the credit of the time until something comes back, in advance and beyond what the bucket
-- holds: at most that of a window.
local function lend(a, e, limit, next_us)
  local filled_to = now + min(next_us, window)
  if filled_to <= a.filled then
    return
  end
  local credit = a.credit + floor(e * @MICRO * (filled_to - a.filled) / window)
  if credit > limit then
    a.lent = max(a.lent, min(a.lent + credit - limit, floor(e * @MICRO)))
    credit = limit
  end
  a.credit, a.filled = credit, filled_to
end
-- Adds the credit that came since the last time, as far as the bucket holds it.
local function pour(a, e, limit)
  local credit = a.credit
  local gain = floor(e * @MICRO * max(now - a.filled, 0) / window)
  if gain >= @GRAIN then
    credit, a.filled = credit + gain, now
  end
  if a.filled - now > @FAR_AHEAD * window then -- further than bookings reach: the clock was set back
    a.filled = now
  end
  a.credit = min(credit, limit)
  draw(a, limit)
end
-- What the shared account was charged for the first ask of a name that has come back is its own.
local function settle(a)
  local s = everybody()
  a.cell = (a.filled - a.filled % window) / window
  roll(s)
  if s.cell == a.cell then
    s.used, s.unmet, s.unmet_before =
      max(0, s.used - a.used), max(0, s.unmet - a.unmet), max(0, s.unmet_before - a.unmet_before)
  elseif s.cell == a.cell + 1 then
    s.used_before, s.unmet_before = max(0, s.used_before - a.used), max(0, s.unmet_before - a.unmet)
  end
  note_claim(s, 0, window, 0)
  s.seen = now
end
