-- Token bucket: what is in it may be used at once.
--
-- Its own fields: 150 date(16)  166 part(13)  179 returned(16): microseconds of refill that refunds have taken off the date so far
--   195 what is booked ahead, at most 64, by date: date(16) receipt(16) permits(13)
--
-- A share that falls clamps the bucket at once, one that rises adds nothing to it. So the rooms in force sum to at most the burst and the
-- shares to at most the limit, and what all shards grant in any t is at most what was in their buckets, a burst, plus what they gained, limit*t.
--
-- A refund must not bring back what would have overflowed meanwhile. date + returned never runs back, whatever is refunded; the receipt of a
-- grant is its value just after. What of it lies ahead of now + returned has not been gained yet and may be taken off; that moves
-- `returned` by as much, so refunds of all grants before an instant s give back at most what was missing at s, and the bound above holds.
--
-- Permits booked ahead are taken out at once, and used when the level is back at 0. If others are cancelled, or the rate rises, it is so earlier.
-- Until they are used they are in the bucket all the same, so up to each date the level must stay below `room` by what is booked from
-- there on: yield sees to that. It is not stored, because what is booked may be canceled before anything flows over, and then leaves no trace.
local returned, bookings = 0, ''
local own_date, own_part, raised = 0, 0, false -- the date without what yield adds to it, while that is there

local function parse(head)
  date, part, returned = sub(head, 150, 165) + 0, sub(head, 166, 178) + 0, sub(head, 179, 194) + 0
  bookings = sub(head, 195)
  return #bookings % 45 == 0 and #bookings <= 2880 and date < 1e16 and part >= 0 and (part < share or part == 0) and returned >= 0 and returned < 1e16
end

local function text()
  return format('%16d%13d%16d', raised and own_date or date, raised and own_part or part, returned) .. bookings
end

local yield, bare, overflow, sum_booked -- made only where something may be booked

local function prepare()
  -- Keeps the level, up to the instant, below the room by so many permits.
  local function at_least(instant, permits)
    local us, rest = span(permits, 0)
    local least = instant + us
    if date < least or date == least and part < rest then
      date, part = least, rest
    end
  end

  function sum_booked()
    local sum = 0
    for last = #bookings, 1, -45 do
      sum = sum + sub(bookings, last - 12, last)
    end
    return sum
  end

  function yield()
    own_date, own_part, raised = date, part, bookings ~= ''
    local later = 0
    for last = #bookings, 1, -45 do
      later = later + sub(bookings, last - 12, last)
      at_least(sub(bookings, last - 44, last - 29) + 0, later)
    end
    measure()
  end

  -- Undoes yield.
  function bare()
    if raised then
      date, part, raised = own_date, own_part, false
    end
  end

  -- Drops the bookings that are due. What flowed over up to now, because the bucket was full with what is booked, is gone.
  function overflow()
    local later, from = sum_booked(), 1
    while from < #bookings and sub(bookings, from, from + 15) + 0 <= now do
      at_least(sub(bookings, from, from + 15) + 0, later)
      later = later - sub(bookings, from + 32, from + 44)
      from = from + 45
    end
    bookings = sub(bookings, from)
    if later > 0 then
      at_least(now, later)
    end
    measure()
  end
end

local function advance()
  measure()
  if level == room and returned > 1e15 then -- in a thousand years; receipts from before are larger than any to come
    returned = 0
  end
  if bookings ~= '' then
    if TAKES and as_proposed then
      prepare()
    end
    overflow()
    yield()
  end
end

local move = grant
local function grant(n)
  if bookings == '' and not raised then
    return move(n)
  end
  bare()
  move(n)
  yield()
end

function receipt()
  if raised then
    return (own_part > 0 and own_date + 1 or own_date) + returned
  end
  return full() + returned
end

function retry(n)
  if n > room then
    return -1
  end
  return wait(n)
end

if not (TAKES and as_proposed) then
  prepare()
end

if not as_proposed then
  function begin()
    date, part, returned, bookings, raised = now, 0, 0, '', false
    measure()
  end

  -- The same permits under another rate. Receipts from before are worth nothing: they count refill at the old one.
  function reshape()
    if target == 0 and burst > 0 then
      return measure()
    end
    local had = level -- under the old rate, and what bookings require of it
    returned = returned + full() - now
    date, part, raised = now, 0, false
    measure()
    if had < room and share > 0 then
      move(room - had)
    end
    yield()
  end

  -- What it may have granted in the window that ends now is what is missing and what it gained; that and what its share then lets others grant are
  -- at most a burst and a window's gain, if the share falls to what would be in a bucket without a rim.
  function retire()
    returned = returned + full() - now
    local us, rest = 0, 0
    if level < share then
      us, rest = span(share - level, 0)
    end
    retire_at(now + us + (rest > 0 and 1 or 0))
    bookings, raised = '', false
  end

  function lasts()
    return window
  end

  -- What is reserved was promised at the rate in force.
  function held()
    if target == 0 and burst > 0 then
      return ebb()
    end
    return (level < 0 or bookings ~= '') and share or 0
  end
end

if not TAKES then
  function promise(n, after)
    local us = retry(n)
    return us >= 0 and us < after and after or us, share <= target and #bookings < 2880
  end

  function book(n, us)
    grant(n)
    local at = receipt()
    if us > 0 then
      bare()
      local last = #bookings
      while last > 0 and sub(bookings, last - 44, last - 29) + 0 > now + us do
        last = last - 45
      end
      bookings = sub(bookings, 1, last) .. format('%16d%16d%13d', now + us, at, n) .. sub(bookings, last + 1)
      yield() -- the date was rounded up
    end
    return at
  end

  booked = sum_booked

  -- Takes up to n permits off the bookings with this receipt, which are several only within a microsecond, and returns how many.
  local function cancel(n, at)
    local canceled = 0
    for last = #bookings, 1, -45 do
      if canceled < n and sub(bookings, last - 28, last - 13) + 0 == at then
        local had = sub(bookings, last - 12, last) + 0
        local part = had < n - canceled and had or n - canceled
        local entry = part < had and sub(bookings, last - 44, last - 13) .. format('%13d', had - part) or ''
        bookings = sub(bookings, 1, last - 45) .. entry .. sub(bookings, last + 1)
        canceled = canceled + part
      end
    end
    return canceled
  end

  -- Puts back what is left to gain, for so many us, of n permits that were granted, and returns how many these are.
  local function regain(n, unused)
    if unused <= 0 or unused > full() - now then
      return 0
    end
    local had = level
    if n > room - level then
      n = room - level
    end
    local us, more = muldiv(window, n, 0, share)
    if more > 0 then
      us = us + 1
    end
    if us <= unused then
      back(n)
    else
      date = date - unused
    end
    measure()
    return level - had < n and level - had or n
  end

  function refund(n, at)
    if share == 0 or retired or returned > 4e15 then
      return 0
    end
    bare()
    measure()
    local was, unused = full(), at - returned - now
    local refunded = cancel(n, at)
    if refunded > 0 then
      back(refunded) -- it was not used yet, so it is all there
    else
      refunded = regain(n, unused)
    end
    returned = returned + was - full()
    yield()
    return refunded
  end
end
