-- Fairness: a participant was refused, and is told to come in `back` us, or then has what it
-- booked. If that is after its claim ends, it does what it was told, and is not silent: it counts
-- half a window longer. One whose callers waited is heavy until its next statement if it could have
-- paid for the `first`, or never could, and they are not much of the share.
local lacks = not heavy and waited * 2 > @MILLI
  and (credit >= first or first > depth and first * @LARGE_PART <= goal)
-- Callers that wait for single permits do not book. A participant that is refused one beside
-- bookings, and could pay for it, is owed what it lacks of its part. Collections of much of the
-- share are not owed: they are booked.
local short = booked and first == 1 and credit >= 1 and unserved * @LARGE_PART <= goal and rate - used or 0
local stays = lacks or not longer and (now + back) * 2 >= stated * 2 - stated * 2 % window + 2 * window
if stays or short > 0 then
  h = h or header(id, now, window)
  h.moved = h.moved or stays or short > h.owed -- before `owed` changes: miniredis would compare the new one
  h.owed = max(h.owed, short)
end
if stays then
  local sums = h.sums
  for sign = -1, 1, 2 do
    local i = 2 * ((stated * 2 - stated * 2 % window) / window + (longer and 1 or 0) - h.half) + (heavy and 4 or 3)
    if i >= 1 and i <= 6 then
      sums[i] = max(sums[i] + sign * (heavy and weight or claim), 0)
    end
    longer, heavy = true, heavy or lacks
  end
  changed = true
end
