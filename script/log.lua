-- Logs, part 2: what algorithms that keep a shard in one string define, over the names of part 1.
local past = count -- of the entries, those that are not booked ahead

-- Reads what has not been read.
local function all()
  if #entries < (count - 1) * @entry.bytes then
    --@include log_rest
  end
end

local function date(i)
  if i == count or i == 1 then
    return i == count and newest or oldest
  end
  if i * @entry.bytes > #entries then
    all()
  end
  return (numbers('@entry.date.form', entries, @entry.date.from[..i * @entry.bytes]))
end

-- The total up to entry i, 0: before the first.
local function upto(i)
  if i == count or i == 0 then
    return i == 0 and before or total
  end
  if i * @entry.bytes > #entries then
    all()
  end
  return (numbers('@entry.total.form', entries, @entry.total.from[..i * @entry.bytes]))
end

-- All entries, to be changed.
local function listed()
  all()
  return count > 0 and entries .. pack('@entry.form', newest, total) or ''
end

-- Makes these the entries.
local function keep(list)
  count, entries, newest, total = #list / @entry.bytes, sub(list, 1, -1 - @entry.bytes), 0, before
  if count > 0 then
    newest, total = numbers('@entry.form', list, @entry.date.from[..#list])
  end
  oldest, past = count > 1 and numbers('@entry.date.form', list, 1) or newest, count
  while past > 0 and date(past) > now do
    past = past - 1
  end
end

if newest > now then
  booked = true
  keep(listed())
end

local function text(stays)
  if not stays then
    all()
  end
  local whole = #entries >= (count - 1) * @entry.bytes
  partial = not whole
  return pack('@log.form', count, newest, total, since, before, whole and 0 or dead, oldest)
    .. (whole and entries or '')
end

-- How a grant of an instant is dated.
local function dated(instant)
  return @FIXED and instant - instant % window or instant
end

-- What was granted up to entry i, of what is alive.
local function alive(i)
  return (upto(i) - before) % @WRAP
end

-- The first entry that is dated after an instant.
local function after(instant)
  local low, high = 1, count + 1
  while low < high do
    local middle = floor((low + high) / 2)
    if date(middle) > instant then
      high = middle
    else
      low = middle + 1
    end
  end
  return low
end

-- What is in the window that ends with entry i.
local function within(i)
  return (upto(i) - upto(after(date(i) - window) - 1)) % @WRAP
end

local function used()
  return alive(count)
end

-- What can be granted now: beside what is used, and in every window that ends with a booking.
local function free()
  local most = alive(past)
  for i = past + 1, count do
    if date(i) - window < dated(now) then
      most = math.max(most, within(i))
    end
  end
  return math.max(math.min(share, target) - most, 0)
end

-- Adds permits to every total of some entries.
local function shifted(some, n)
  local parts = {}
  for last = @entry.bytes, #some, @entry.bytes do
    local at, sum = numbers('@entry.form', some, @entry.date.from[..last])
    parts[#parts + 1] = pack('@entry.form', at, (sum + n) % @WRAP)
  end
  return table.concat(parts)
end

-- Whether a grant of one date may share an entry with one of another.
local function together(one, other)
  local cell = floor(window / @CELLS)
  return one == other or not @FIXED and share > @EXACT_SHARE and one - one % cell == other - other % cell
end

local function grant(n)
  local at = dated(now)
  local joins = past > 0
    and (date(past) == at or past >= @MOST_ENTRIES or past >= @EXACT_LIVE and together(date(past), at))
  if past < count then
    local list, kept = listed(), joins and past - 1 or past
    keep(sub(list, 1, kept * @entry.bytes) .. pack('@entry.form', at, (upto(past) + n) % @WRAP)
      .. shifted(sub(list, past * @entry.bytes + 1), n))
    return
  end
  if not joins then
    local closed = count > 0 and pack('@entry.form', newest, total) or ''
    if dead > count then
      all()
    end
    if #entries >= (count - 1) * @entry.bytes then
      entries = entries .. closed
    else
      tail, tail_at = closed, format('%d', base + @log.bytes + (dead + behind) * @entry.bytes)
    end
    count, past = count + 1, past + 1
  end
  newest, total = at, (total + n) % @WRAP
  oldest = count == 1 and at or oldest
end

local function reset()
  return count > 0 and newest + window - now or 0
end

-- When so many permits have left.
local function leave(gone)
  local low, high = 1, #entries / @entry.bytes
  if high < count - 1 and (high == 0 or alive(high) < gone) then
    all()
    high = count - 1
  end
  high = high + 1 -- the newest, if it comes to that
  while low < high do
    local middle = floor((low + high) / 2)
    if alive(middle) >= gone then
      high = middle
    else
      low = middle + 1
    end
  end
  return date(low) + window - now
end

-- The time until n permits are free: beside what is used then, and in every window that holds that
-- instant and ends with a booking; else behind that booking.
local function retry(n)
  local most, us, last = math.min(share, target), 0, past
  if n > most then
    return -1
  end
  while true do
    while last < count and date(last + 1) - now <= us do
      last = last + 1 -- it is past by then
    end
    local gone, later = alive(last) + n - most, us
    if gone > 0 then
      later = math.max(us, leave(gone))
    end
    if later == us then
      for i = last + 1, count do
        if date(i) - window < dated(now + us) and within(i) + n > most then
          later = math.max(later, date(i) - now)
        end
      end
      if later == us then
        return us
      end
    end
    us = later
  end
end

local function soonest()
  if used() == 0 then
    return 0
  end
  local us = free() > 0 and date(1) + window - now or retry(1)
  return us < 0 and reset() or us
end

if not as_proposed then
  function falls()
    return date(1) + window - now
  end

  function begin()
    since, before, oldest, newest, total, entries, count, past = now, 0, 0, 0, 0, '', 0, 0
  end

  -- What left the old window stays forgotten. What a fixed window has granted counts in the new one
  -- that is under way, and what is booked in the one that holds its beginning.
  function regrid()
    local list, parts = listed(), {}
    for from = 1, #list, @entry.bytes do
      local when, sum = numbers('@entry.form', list, from)
      when = @FIXED and dated(math.max(when, now)) or when
      if when <= now - window then
        since, before = when + (@FIXED and window or 1), sum
      else
        parts[#parts + 1] = pack('@entry.form', when, sum)
      end
    end
    keep(table.concat(parts))
  end

  function retire()
  end

  function reshape()
  end

  -- The most that a window holds which ends now or with a booking.
  function held()
    local most = alive(past)
    for i = past + 1, count do
      most = math.max(most, within(i))
    end
    return most
  end
end

if not TAKES then
  -- How many of n permits make a difference: with the share, nothing is free for a window.
  function overdraw(n)
    return math.max(math.min(n, math.max(share, target), @MOST_USED - alive(past)), 0)
  end

  -- What was granted a window ago does not come back, though its entry may be younger: nobody knows
  -- any more whether it did before.
  function refund(n, at)
    local own = dated(at)
    local i = after(own - 1)
    if at < since or own <= now - window or i > count
      or date(i) ~= own and (i > past or not together(date(i), own)) then
      return 0
    end
    local list, held = listed(), (upto(i) - upto(i - 1)) % @WRAP
    local kept = n < held and i - 1 or i
    n = math.min(n, held)
    keep(sub(list, 1, (i - 1) * @entry.bytes) .. shifted(sub(list, kept * @entry.bytes + 1), -n))
    return n
  end

  -- Behind everything that is booked.
  function earliest(n, least)
    if least == 0 and n <= free() then
      return 0, true
    end
    local most = math.min(share, target)
    if n > most then
      return -1, false
    end
    local us, gone = least, used() + n - most
    if count > past then
      us = math.max(us, date(count) - now)
    end
    if gone > 0 then
      us = math.max(us, leave(gone))
    end
    return us, count - past < @MOST_PENDING and count < @MOST_ENTRIES + @MOST_PENDING
  end

  function book(n, us)
    local at = dated(now + us)
    if at <= now then
      grant(n)
    else
      local kept = count > past and newest == at and count - 1 or count
      keep(sub(listed(), 1, kept * @entry.bytes) .. pack('@entry.form', at, (total + n) % @WRAP))
    end
    return now + us
  end

  function releases(reply)
    local step, told = math.max(ceil(count / @MAX_RELEASES), 1), 0
    for i = 1, count, step do
      local last = math.min(i + step - 1, count)
      if alive(last) > told then
        reply[#reply + 1] = date(last) + window - now
        reply[#reply + 1] = alive(last) - told
        told = alive(last)
      end
    end
  end
end
