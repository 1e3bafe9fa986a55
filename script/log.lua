-- Sliding log, sliding counter and fixed window: what was granted, entry by entry, each
-- with a date and the total up to it. An entry counts in every window that holds its date. What is
-- booked are entries dated ahead, in the order of their dates; time makes them part of the past.
--
-- The three differ in how they date. A log has an entry for each grant while @EXACT_LIVE are alive,
-- or the share is small. Then, and in a counter always, what is granted in the same of @CELLS cells
-- of a window shares an entry with the date of its newest grant: permits come back late by at most
-- a cell, never early. A fixed window dates everything at its beginning.
--
-- Totals run modulo @WRAP, so that what lies between two entries is a difference and nothing is
-- ever summed. No entry is empty.
--
-- The newest entry has columns of its own, so that most grants of take.lua write nothing else. The
-- others follow, oldest first. Those in front that have left the window stay there, and are only
-- counted, until there are more of them than others. Here all is read, and all that is alive
-- written.
--@layout log
--@layout entry
local since, before = now, 0
local entries, count, past = '', 0, 0 -- those that are alive; of them, those that are not booked ahead

local function date(i)
  return (numbers('@entry.date.form', entries, @entry.date.from[..i * @entry.bytes]))
end

-- The total up to entry i, 0: before the first.
local function upto(i)
  return i == 0 and before or (numbers('@entry.total.form', entries, @entry.total.from[..i * @entry.bytes]))
end

-- The entries from one to another.
local function some(from, to)
  return sub(entries, (from - 1) * @entry.bytes + 1, to * @entry.bytes)
end

-- Makes these the entries.
local function keep(list)
  entries, count = list, #list / @entry.bytes
  past = count
  while past > 0 and date(past) > now do
    past = past - 1
  end
  booked = past < count
end

local function text()
  local newest, total, oldest = 0, before, 0
  if count > 0 then
    newest, total = numbers('@entry.form', entries, @entry.date.from[..#entries])
    oldest = date(1)
  end
  return pack('@log.form', count, newest, total, since, before, 0, oldest) .. some(1, count - 1)
end

-- How a grant of an instant is dated.
local function dated(instant)
  return @FIXED and instant - instant % window or instant
end

-- What was granted up to entry i, of what is alive.
local function alive(i)
  return (upto(i) - before) % @WRAP
end

-- first returns the first entry that is above a bound, by its date or by the permits up to it.
local function first(of, bound)
  local low, high = 1, count + 1
  while low < high do
    local middle = floor((low + high) / 2)
    if of(middle) > bound then
      high = middle
    else
      low = middle + 1
    end
  end
  return low
end

if head then
  local newest, total, sound, dead, oldest
  if sign == ',' then
    since, total = numbers('@once.form', own, 1)
    newest, sound = dated(touched), #own == @once.bytes and total >= 1
  elseif #own >= @log.bytes then
    count, newest, total, since, before, dead, oldest = numbers('@log.form', own, @log.count.from)
    local from, length = @log.bytes + dead * @entry.bytes, max(count - 1, 0) * @entry.bytes
    entries = sub(own, from + 1, from + length)
    sound = dead + count < 2e4 and oldest < 1e16 and #entries == length
  end
  if not (sound and newest < 1e16 and total < @WRAP and before < @WRAP) then
    return {-1, 1}
  end
  if sign == ',' or count > 0 then
    entries = entries .. pack('@entry.form', newest, total)
  end
  keep(entries)
  local gone = first(date, now - window) - 1
  if gone > 0 then
    since, before = date(gone) + (@FIXED and window or 1), upto(gone)
    keep(some(gone + 1, count))
  end
end

-- What is in the window that ends with entry i.
local function within(i)
  return (upto(i) - upto(first(date, date(i) - window) - 1)) % @WRAP
end

local function used()
  return alive(count)
end

-- The most in the window that ends now, and in those that end with a booking and begin before an
-- instant.
local function fullest(instant)
  local most = alive(past)
  for i = past + 1, count do
    if date(i) - window < instant then
      most = max(most, within(i))
    end
  end
  return most
end

local function free()
  return max(min(share, target) - fullest(dated(now)), 0)
end

-- Adds permits to every total of some entries.
local function shifted(list, n)
  local parts = {}
  for last = @entry.bytes, #list, @entry.bytes do
    local at, sum = numbers('@entry.form', list, @entry.date.from[..last])
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
  local at, joins = dated(now), false
  if past > 0 then -- hardly into the window of a booking: all that it joins would count beside that
    local beside = first(date, date(past) + window - 1)
    joins = date(past) == at or past >= @MOST_ENTRIES or past >= @EXACT_LIVE and together(date(past), at)
      and (beside > count or date(beside) >= at + window)
  end
  keep(some(1, joins and past - 1 or past) .. pack('@entry.form', at, (upto(past) + n) % @WRAP)
    .. shifted(some(past + 1, count), n))
end

local function reset()
  return count > 0 and date(count) + window - now or 0
end

-- When so many permits have left.
local function leave(gone)
  return date(min(first(alive, gone - 1), count)) + window - now
end

-- The time until n permits are free: beside what is used then, and in every window that holds that
-- instant and ends with a booking; else behind that booking.
local function retry(n)
  local most, us, last = min(share, target), 0, past
  if n > most then
    return -1
  end
  while true do
    while last < count and date(last + 1) - now <= us do
      last = last + 1 -- it is past by then
    end
    local gone, later = alive(last) + n - most, us
    if gone > 0 then
      later = max(us, leave(gone))
    end
    if later == us then
      for i = last + 1, count do
        if date(i) - window < dated(now + us) and within(i) + n > most then
          later = max(later, date(i) - now)
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

function begin()
  since, before = now, 0
  keep('')
end

-- regrid takes the entries over into another window. Those that left the old one stay forgotten. A
-- fixed window counts its grants in the new one that is under way, and a booking where it begins.
function regrid()
  local parts = {}
  for from = 1, #entries, @entry.bytes do
    local when, sum = numbers('@entry.form', entries, from)
    when = @FIXED and dated(max(when, now)) or when
    if when <= now - window then
      since, before = when + (@FIXED and window or 1), sum
    else
      parts[#parts + 1] = pack('@entry.form', when, sum)
    end
  end
  keep(table.concat(parts))
end

function reshape() end

function held()
  return fullest(2 ^ 53)
end

-- How many of n permits make a difference: with the share, nothing is free for a window.
function overdraw(n)
  return max(min(n, max(share, target), @MOST_USED - alive(past)), 0)
end

-- refund gives permits of an entry back. A grant of a window ago gives nothing back, although its
-- entry may be younger: nobody knows any more whether it did so before.
function refund(n, at)
  local own = dated(at)
  local i = first(date, own - 1)
  if at < since or own <= now - window or i > count
    or date(i) ~= own and (i > past or not together(date(i), own)) then
    return 0
  end
  local held = (upto(i) - upto(i - 1)) % @WRAP
  n = min(n, held)
  keep(some(1, i - 1) .. shifted(some(n < held and i or i + 1, count), -n))
  return n
end

-- Behind everything that is booked.
function earliest(n, least, kept)
  local most = min(share, target)
  if n > most then
    return -1, false
  end
  kept = min(kept, most - n)
  if least == 0 and n + kept <= free() then
    return 0, true
  end
  local gone = used() + n + kept - most
  local us = max(least, count > past and date(count) - now or 0, gone > 0 and leave(gone) or 0)
  return us, count - past < @MOST_PENDING and count < @MOST_ENTRIES + @MOST_PENDING
end

function book(n, us)
  local at = dated(now + us)
  if at <= now then
    grant(n)
  else
    local kept = count > past and date(count) == at and count - 1 or count
    keep(some(1, kept) .. pack('@entry.form', at, (upto(count) + n) % @WRAP))
  end
  return now + us
end

function releases(reply)
  local step, told = max(ceil(count / @MAX_RELEASES), 1), 0
  for i = 1, count, step do
    local last = min(i + step - 1, count)
    reply[#reply + 1], reply[#reply + 2] = date(last) + window - now, alive(last) - told
    told = alive(last)
  end
end
