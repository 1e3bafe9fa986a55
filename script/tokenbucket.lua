-- Token bucket: what is in it may be used at once.
--
-- Its own columns: the date; since when grants are known; the least that was missing before a
-- grant, in the stretch of time under way and in each of the @LOWS before; what is booked ahead, at
-- most @MOST_BOOKINGS bookings, by date. In @LOWS stretches an empty bucket fills.
--@layout tokens
--@layout low
--@layout booking
--
-- A share that falls clamps the bucket at once, and one that rises adds nothing. So the permits in
-- all buckets sum to at most the burst, and the shares to at most the limit. What all shards grant
-- in any t is at most a burst, plus what they gained: limit*t.
--
-- What comes back must not bring back what would have overflowed meanwhile. If n permits had not
-- been granted, n less what the bucket gained since would surely be there. And if the bucket lacked
-- m at least before each grant since, then so would the lesser of m and n. The greater of the two
-- comes back, and m is the less by n from then on: it tells of a bucket that had them.
--
-- Permits booked ahead are taken out at once, and used when the level is back at 0. If others are
-- cancelled, or the rate rises, it is so earlier. Until they are used they are in the bucket all
-- the same, so up to each date the level must stay below `room` by what is booked from there on:
-- yield sees to that. It is not stored, because what is booked may be canceled before anything
-- flows over, and then leaves no trace.
--@include bucket
local NO_LOWS = string.rep('@MOST_LACKING', @LOWS + 1)
local since, lows, bookings = 0, NO_LOWS, ''
local own_date, own_part, raised = 0, 0, false -- the date without what yield adds to it, while that is there
local own_level = 0                            -- the level then

local function parse(state)
  date, part, since, lows, bookings =
    sub(state, @tokens.date) + 0, sub(state, @tokens.part) + 0, sub(state, @tokens.since) + 0,
      sub(state, @tokens.lows), sub(state, @tokens.bookings)
  return #state >= @tokens.lows.to and not find(lows, '[^ %d]') and #bookings % @booking.bytes == 0
    and #bookings <= @booking.bytes[@MOST_BOOKINGS] and date < 1e16 and part >= 0 and (part < share or part == 0)
    and since < 1e16
end

local function text()
  return format('@tokens.date..since.form', raised and own_date or date, raised and own_part or part, since) .. lows
    .. bookings
end

-- How many stretches ago an instant was.
local function stretches(at)
  local stretch = floor(window * burst / target / @LOWS)
  return stretch > 0 and floor(now / stretch) - floor(at / stretch) or @LOWS + 1
end

-- Has what was missing in the stretch whose number is there be no more than that.
local function lower(from, lacking)
  lacking = lacking > 0 and lacking or 0
  if lacking < sub(lows, @low.permits[from]) + 0 then
    lows = sub(lows, 1, from - 1) .. format('@low.form', lacking) .. sub(lows, from + @low.bytes)
  end
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
    for last = #bookings, 1, -@booking.bytes do
      sum = sum + sub(bookings, @booking.permits[..last])
    end
    return sum
  end

  function yield()
    own_date, own_part, raised = date, part, bookings ~= ''
    if raised then
      measure()
      own_date, own_part, own_level = date, part, level
    end
    local later = 0
    for last = #bookings, 1, -@booking.bytes do
      later = later + sub(bookings, @booking.permits[..last])
      at_least(sub(bookings, @booking.date[..last]) + 0, later)
    end
    measure()
  end

  -- Undoes yield.
  function bare()
    if raised then
      date, part, raised = own_date, own_part, false
    end
  end

  -- Drops the bookings that are due. What flowed over up to now, because the bucket was full with
  -- what is booked, is gone.
  function overflow()
    local later, from = sum_booked(), 1
    while from < #bookings and sub(bookings, @booking.date[from]) + 0 <= now do
      at_least(sub(bookings, @booking.date[from]) + 0, later)
      local due = sub(bookings, @booking.permits[from]) + 0
      later = later - due
      from = from + @booking.bytes
    end
    bookings = sub(bookings, from)
    if later > 0 then
      at_least(now, later)
    end
    measure()
    lower(1, 0) -- what is booked needs room beside what is missing
  end
end

local function advance()
  if target > 0 then
    local passed = stretches(touched)
    if passed > 0 then
      lows = sub(string.rep('@MOST_LACKING', passed > @LOWS and @LOWS + 1 or passed) .. lows, 1, #lows)
    end
  end
  measure()
  if bookings ~= '' then
    if TAKES and as_proposed then
      prepare()
    end
    overflow()
    yield()
  end
end

local function grant(n)
  lower(1, room - level - 1) -- a part of a permit counts as one
  if bookings == '' and not raised then
    return move(n)
  end
  bare()
  move(n)
  yield()
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
  -- Nothing comes back of what was granted so far.
  local function leave()
    since, lows = now + 1, NO_LOWS
  end

  function begin()
    date, part, bookings, raised = now, 0, '', false
    since, lows = now, NO_LOWS
    measure()
  end

  -- The same permits under another rate, as far as there is room. Of what was granted before
  -- nothing comes back: it is not known what the bucket gained.
  function reshape()
    if target == 0 and burst > 0 then
      return measure()
    end
    local had = raised and own_level or level -- under the old rate
    bare()
    leave()
    date, part = now, 0
    measure()
    if had < room and share > 0 then
      move(room - had)
    end
    yield()
  end

  -- What it may have granted in the window that ends now is what is missing and what it gained.
  function retire()
    leave()
    local us, rest = 0, 0
    if level < share then
      us, rest = span(share - level, 0)
    end
    date, part, bookings, raised = now + us + (rest > 0 and 1 or 0), 0, '', false
  end

  -- What is reserved was dated at the rate in force.
  function held()
    if target == 0 and burst > 0 then
      return date > now and share or 0
    end
    return (level < 0 or bookings ~= '') and share or 0
  end
end

if not TAKES then
  function earliest(n, after)
    local us = retry(n)
    return us >= 0 and us < after and after or us, share <= target and #bookings < @booking.bytes[@MOST_BOOKINGS]
  end

  function book(n, us)
    grant(n)
    if us > 0 then
      bare()
      local last = #bookings
      while last > 0 and sub(bookings, @booking.date[..last]) + 0 > now + us do
        last = last - @booking.bytes
      end
      bookings = sub(bookings, 1, last) .. format('@booking.form', now + us, n) .. sub(bookings, last + 1)
      yield() -- the date was rounded up
    end
    return now + us
  end

  -- Takes up to n permits off the bookings with this date, and returns how many.
  local function cancel(n, at)
    local canceled = 0
    for last = #bookings, 1, -@booking.bytes do
      if canceled < n and sub(bookings, @booking.date[..last]) + 0 == at then
        local had = sub(bookings, @booking.permits[..last]) + 0
        local taken = had < n - canceled and had or n - canceled
        local entry =
          taken < had and sub(bookings, @booking.date[..last]) .. format('@booking.permits.form', had - taken) or ''
        bookings = sub(bookings, 1, last - @booking.bytes) .. entry .. sub(bookings, last + 1)
        canceled = canceled + taken
      end
    end
    return canceled
  end

  function refund(n, at)
    if share == 0 or target == 0 or at < since then
      return 0
    end
    bare()
    measure()
    local had, refunded = level, cancel(n, at)
    if refunded > 0 then
      give_back(refunded)
    elseif at <= now then
      local last, least = 1 + stretches(at) * @low.bytes, n
      if last > #lows then
        last, least = #lows, 0
      end
      for from = 1, last, @low.bytes do
        local lacked = sub(lows, @low.permits[from]) + 0
        least = lacked < least and lacked or least
        lower(from, lacked - n)
      end
      if share * (now - at) / window < n - least then
        give_back(n)
        date = date + now - at
      elseif least > 0 then
        give_back(least)
      end
    end
    measure()
    refunded = n < level - had and n or level - had
    yield()
    return refunded
  end
end
--@include bucket_load
