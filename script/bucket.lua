-- Token and leaky bucket, the part they share: one date says it all.
--
-- A bucket of `room` permits that gains `share` per window is full again at date + part/share
-- microseconds, if nothing more is taken. So what is in it is `room` less what it will have gained
-- until then, a grant of n moves the date on by n*window/share, and idleness costs nothing. The
-- part of a microsecond is kept as the numerator over the share, so nothing is ever rounded and no
-- rate drifts. In a leaky bucket the next permit may act at that date.
local date, part = 0, 0
local retry -- each of the two has its own
local give_back
local FAR = @FAR -- bounds what is missing, and us, where a queue meets quite another rate: nothing overflows
local room, level = 0, 0 -- the burst that goes with the share in force; what nobody has reserved of it
local reserved, spare = 0, 0 -- permits that are booked ahead; what these leave of what will be there

-- The whole part and the remainder of (a*b + c) / d, exact though the product may not be: c < d <
-- 2^42, b < 2^50, the quotient < 2^53.
local function muldiv(a, b, c, d)
  local product = a * b + c
  if product < 9007199254740992 then
    local whole = floor(product / d)
    return whole, product - whole * d
  end
  local whole = floor(a / d)
  local rest, quotient, left, unit = a - whole * d, 0, 0, 1099511627776
  for i = 1, 5 do
    local sum = left * 1024 + rest * (floor(b / unit) % 1024)
    if i == 5 then
      sum = sum + c
    end
    local step = floor(sum / d)
    quotient, left, unit = quotient * 1024 + step, sum - step * d, unit / 1024
  end
  return whole * b + quotient, left
end

-- When the bucket is full, rounded up.
local function full()
  return part > 0 and date + 1 or date
end

-- missing returns the permits that the bucket lacks at an instant. Of one that is full by then they
-- are below zero: what has flowed over.
local function missing(at)
  if share == 0 then
    return 0
  elseif share * max(date - at, at - date) / window >= FAR then
    return date > at and FAR or -FAR
  elseif date >= at then
    local whole, more = muldiv(share, date - at, part, window)
    return more > 0 and whole + 1 or whole
  end
  return -muldiv(share, at - date - 1, share - part, window)
end

local function measure()
  room = share == 0 and 0 or share < target and muldiv(burst, share, 0, target) or burst
  if full() <= now then
    date, part = now, 0
  end
  level = room - missing(now)
end

-- How long n permits take, and `more` parts of a microsecond.
local function span(n, more)
  if window * n / share < FAR then
    return muldiv(window, n, more, share)
  end
  return FAR, 0
end

local function move(n)
  local us
  us, part = span(n, part)
  date, level = date + us, level - n
end

local function used()
  return closed_until > now and share or room - level -- who leaves to another algorithm keeps all of it
end

local function free()
  return share <= target and level > 0 and level or 0
end

-- Microseconds until n permits are in the bucket.
local function wait(n)
  if n <= level then
    return 0
  end
  local us, less = muldiv(window, room - n, 0, share)
  return date - us + (less < part and 1 or 0) - now
end

local function reset()
  return retry(room)
end

local function soonest()
  if level >= room then
    return 0
  end
  local us = retry(level > 0 and level + 1 or 1)
  return us < 0 and reset() or us
end

if not TAKES then
  -- As many of n permits as the bucket gains until it is full, if that is in us at the latest.
  function overdraw(n, us)
    return max(min(n, -missing(now + us) - reserved), 0)
  end

  -- The exact opposite of grant.
  function give_back(n)
    local us, less = muldiv(window, n, 0, share)
    date, part = date - us, part - less
    if part < 0 then
      date, part = date - 1, part + share
    end
  end

  function releases(reply)
    local from, step = level, max(ceil((room - level) / (@MAX_RELEASES - 1)), 1)
    while from < room do
      local to = min(from + step, room)
      to = from < spare and spare < to and spare or to -- up to `spare` they come before what is booked
      reply[#reply + 1], reply[#reply + 2] = retry(to), to - from
      from = to
    end
  end
end
