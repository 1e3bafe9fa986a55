-- A sliding log in one string: a fixed-width header, then a ring of cells. It is the fastest layout
-- that is known to us, and what our own script is held against; nothing but the benchmark uses it.
--
-- KEYS  1 the shard
-- ARGV  1 epoch  2 share  3 window us  4 time to live ms  5 permits to take, all or nothing
--       6 "", or in tests: the time in us
-- Reply epoch, share, granted, free, now, next us (0: nothing to wait for), reset us
--
-- Header, by bytes from 0: epoch 6, share 13, window 13, resolution 11, cells 4, unused 13 | open
-- entry: begin 16, total before it 15 | base 15, first cell 4, closed 4, oldest 16 | newest 16,
-- total 15. A cell is the date of a closed entry (16) and the total before it (16).
local now
if ARGV[6] == '' then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
else
  now = ARGV[6] + 0
end
local sub, format = string.sub, string.format
local head = redis.call('GETRANGE', KEYS[1], '0', '160')
if #head < 161 then
  local share, window = ARGV[2] + 0, ARGV[3] + 0
  local resolution, cells = 0, share + 2
  if share > 128 then
    resolution, cells = math.floor(window / 128), 162
  end
  head =
    format('%6d%13d%13d%11d%4d%13d%16d%15d%15d%4d%4d%16d%16d%15d', ARGV[1], share, window, resolution, cells, 0, 0, 0,
      0, 0, 0, 0, 0, 0)
  redis.call('SET', KEYS[1], head .. string.rep(' ', 32 * cells), 'PX', ARGV[4])
end
local epoch, share, window, cells =
  sub(head, 1, 6) + 0, sub(head, 7, 19) + 0, sub(head, 20, 32) + 0, sub(head, 44, 47) + 0
local base, first, closed, oldest =
  sub(head, 92, 106) + 0, sub(head, 107, 110) + 0, sub(head, 111, 114) + 0, sub(head, 115, 130) + 0
local newest, total = sub(head, 131, 146) + 0, sub(head, 147, 161) + 0
if now < newest then
  now = newest
end

local cut, trimmed = now - window, false
if total > base and newest <= cut then
  base, first, closed, oldest, trimmed = total, 0, 0, 0, true
elseif closed > 0 and oldest <= cut then
  -- The date of a closed entry and the total before it.
  local function cell(i)
    local at = 161 + 32 * ((first + i) % cells)
    local text = redis.call('GETRANGE', KEYS[1], format('%d', at), format('%d', at + 31))
    return sub(text, 1, 16) + 0, sub(text, 17, 32) + 0
  end
  local low, high = 1, closed -- how many have expired: at least the first
  while low < high do
    local middle = math.floor((low + high) / 2)
    if cell(middle) <= cut then
      low = middle + 1
    else
      high = middle
    end
  end
  if low == closed then
    base, oldest = sub(head, 77, 91) + 0, 0
  else
    oldest, base = cell(low)
  end
  first, closed, trimmed = (first + low) % cells, closed - low, true
end

local take, granted = ARGV[5] + 0, 0
local free = share - (total - base)
if take <= free then
  granted, free = take, free - take
  local began = sub(head, 61, 76) + 0
  if total > base and (now == newest or (closed >= 32 and now - began < sub(head, 33, 43) + 0)) then
    newest, total = now, total + take
    if trimmed then
      redis.call('SETRANGE', KEYS[1], '91',
        format('%15d%4d%4d%16d%16d%15d', base, first, closed, oldest, newest, total))
    else
      redis.call('SETRANGE', KEYS[1], '130', format('%16d%15d', newest, total))
    end
  else
    if total > base then
      local at = 161 + 32 * ((first + closed) % cells)
      redis.call('SETRANGE', KEYS[1], format('%d', at), format('%16d%16d', newest, sub(head, 77, 91)))
      closed = closed + 1
      if oldest == 0 then
        oldest = newest
      end
    end
    redis.call('SETRANGE', KEYS[1], '60',
      format('%16d%15d%15d%4d%4d%16d%16d%15d', now, total, base, first, closed, oldest, now, total + take))
    redis.call('PEXPIRE', KEYS[1], ARGV[4])
    newest, total = now, total + take
  end
end
local soonest, reset = 0, 0
if total > base then
  soonest = (oldest > 0 and oldest or newest) + window - now
  reset = newest + window - now
end
return {epoch, share, granted, free, now, soonest, reset}
