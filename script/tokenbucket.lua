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
-- A booking is taken out at its date. Until then the level is what may be taken out now so that
-- every booking finds its permits.
--@include bucket
local NO_LOW = pack('@low.form', @MOST_LACKING)
local NO_LOWS = string.rep(NO_LOW, @LOWS + 1)
local since, lows, bookings = 0, NO_LOWS, ''
local stock = 0 -- the permits in the bucket, reserved or not

local function parse(state)
  date, part, since = numbers('@tokens.form', state, @tokens.date.from)
  lows, bookings = sub(state, @tokens.lows), sub(state, @tokens.bookings)
  return #state >= @tokens.bytes and #bookings % @booking.bytes == 0
    and #bookings <= @booking.bytes[@MOST_BOOKINGS] and date < 1e16 and (part < share or part == 0)
    and since < 1e16 and (share > 0 or bookings == '')
end

local function text()
  return pack('@tokens.form', date, part, since) .. lows .. bookings
end

-- A booking: its date, and its permits.
local function booking(from)
  return numbers('@booking.form', bookings, from)
end

local function look()
  measure()
  stock, spare, reserved, booked = level, FAR, 0, bookings ~= ''
  for from = 1, #bookings, @booking.bytes do
    local at, n = booking(from)
    reserved = reserved + n
    spare = min(spare, room - missing(at) - reserved)
  end
  level = min(stock, spare)
end

-- How many stretches ago an instant was.
local function stretches(at)
  local stretch = floor(window * burst / target / @LOWS)
  return stretch > 0 and floor(now / stretch) - floor(at / stretch) or @LOWS + 1
end

-- Has what was missing in the stretch whose number is there be no more than that.
local function lower(from, lacking)
  lacking = min(max(lacking, 0), (numbers('@low.form', lows, from)))
  lows = sub(lows, 1, from - 1) .. pack('@low.form', lacking) .. sub(lows, from + @low.bytes)
end

-- Takes permits out at an instant.
local function draw(at, n)
  lower(1, missing(at) - 1) -- a part of a permit counts as one
  if full() <= at then
    date, part = at, 0
  end
  move(n)
end

local function advance()
  if target > 0 then
    local passed = stretches(touched)
    if passed > 0 then
      lows = sub(string.rep(NO_LOW, passed > @LOWS and @LOWS + 1 or passed) .. lows, 1, #lows)
    end
  end
  while bookings ~= '' and booking(1) <= now do
    draw(booking(1))
    bookings = sub(bookings, @booking.bytes + 1)
  end
  look()
end

local function grant(n)
  draw(now, n)
  stock, spare = stock - n, spare - n
end

-- Microseconds until n permits are in the bucket behind all that is booked.
local function behind(n)
  local last, rest, kept, us = date, part, lows, 0
  for from = 1, #bookings, @booking.bytes do
    local at = booking(from)
    draw(booking(from))
    us = at - now
  end
  level = n - 1 -- they are not there at once
  us = max(us, wait(n))
  date, part, lows = last, rest, kept
  look()
  return us
end

function retry(n)
  if n > room then
    return -1
  end
  return n <= spare and wait(n) or behind(n)
end

if not as_proposed then
  function begin()
    date, part, bookings, since, lows = now, 0, '', now, NO_LOWS
    look()
  end

  -- The same permits under another rate, as far as there is room. Of what was granted before
  -- nothing comes back: it is not known what the bucket gained.
  function reshape()
    local had = stock
    since, lows, date, part = now + 1, NO_LOWS, now, 0
    measure()
    if had < room and share > 0 then
      move(room - had)
    end
    look()
  end

  -- What it may have granted in the window that ends now is what is missing and what it gained.
  function ends()
    return bookings ~= '' and booking(#bookings - @booking.bytes + 1) - now + window
      or level < share and min(span(share - level, 0) + 1, window) or 0
  end

  -- What is reserved was dated at the rate in force.
  function held()
    return (target > 0 or burst == 0) and (level < 0 or bookings ~= '') and share or 0
  end
end

if not TAKES then
  function earliest(n, after, kept)
    if n > room then
      return -1, false
    end
    kept = min(kept, room - n)
    local us = after == 0 and n + kept <= level and 0 or max(after, behind(n + kept))
    return us, share <= target and #bookings < @booking.bytes[@MOST_BOOKINGS]
  end

  function book(n, us)
    if us == 0 then
      grant(n)
    else
      bookings = bookings .. pack('@booking.form', now + us, n)
      look()
    end
    return now + us
  end

  -- Takes up to n permits off the bookings with this date, and returns how many.
  local function cancel(n, at)
    local kept, canceled = '', 0
    for from = 1, #bookings, @booking.bytes do
      local due, had = booking(from)
      local gone = due == at and min(had, n - canceled) or 0
      canceled = canceled + gone
      if gone < had then
        kept = kept .. pack('@booking.form', due, had - gone)
      end
    end
    bookings = kept
    return canceled
  end

  function refund(n, at)
    if share == 0 or target == 0 or at < since then
      return 0
    end
    local had, canceled = missing(now), cancel(n, at)
    if canceled == 0 and at <= now then
      local last, least = 1 + stretches(at) * @low.bytes, n
      if last > #lows then
        last, least = #lows, 0
      end
      for from = 1, last, @low.bytes do
        local lacked = numbers('@low.form', lows, from)
        least = lacked < least and lacked or least
        lower(from, lacked - n)
      end
      if share * (now - at) / window < n - least then
        give_back(n)
        date = date + now - at
      elseif least > 0 then
        give_back(least)
      end
      measure()
      canceled = min(n, had - missing(now))
    end
    look()
    return canceled
  end
end
--@include bucket_load
