--@needs WRAP base before cut entries format newest oldest sub total
--@sets base before oldest
--@gives damaged trimmed used
-- Sliding log, part 2: forget, in memory only, the entries dated at or before `cut`. Exact at once
-- and O(log n): the oldest entry that stays tells the total before it. Sets base, before, oldest
-- (0: no closed entry is left), used, trimmed (the log still holds closed entries that have left)
-- and damaged (the log is not the one the head describes).
local trimmed, damaged = false, false
if oldest > 0 and oldest <= cut then
  --@include slidinglog_rest
  trimmed = true
  if newest <= cut then
    base, before, oldest = total, total, 0
  else
    local stays = redis.pcall('ZRANGEBYSCORE', KEYS[2], format('(%d', cut), '+inf', 'LIMIT', '0', '1')
    if stays.err then
      return {-1, 2, stays.err}
    end
    local member = stays[1]
    damaged = redis.call('ZCARD', KEYS[2]) ~= entries
    if not member then
      base, oldest = before, 0
    elseif #member == @entry.bytes and tonumber(sub(member, @entry.date)) and tonumber(sub(member, @entry.before)) then
      oldest, base = sub(member, @entry.date) + 0, sub(member, @entry.before) + 0
    else
      return {-1, 2}
    end
  end
elseif newest <= cut then
  -- The open entry is emptied, not only passed over: under a longer window it would seem to hold
  -- permits again.
  base, before = total, total
end
local used = (total - base) % WRAP
