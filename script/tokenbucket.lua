-- Token bucket: what is in it may be used at once.
--
-- Its own fields: 150 date(16)  166 part(13)  179 returned(16): microseconds of refill that refunds have taken off the date so far.
--
-- A share that falls clamps the bucket at once, one that rises adds nothing to it. So the rooms in force sum to at most the burst and the
-- shares to at most the limit, and what all shards grant in any t is at most what was in their buckets, a burst, plus what they gained, limit*t.
--
-- A refund must not bring back what would have overflowed meanwhile. date + returned never runs back, whatever is refunded; the receipt of a
-- grant is its value just after. What of it lies ahead of now + returned has not been gained yet and may be taken off; that moves
-- `returned` by as much, so refunds of all grants before an instant s give back at most what was missing at s, and the bound above holds.
local returned = 0

local function parse(head)
  date, part, returned = sub(head, 150, 165) + 0, sub(head, 166, 178) + 0, sub(head, 179) + 0
  return #head == 194 and date < 1e16 and part >= 0 and (part < share or part == 0) and returned >= 0 and returned < 1e16
end

local function text()
  return format('%16d%13d%16d', date, part, returned)
end

local function advance()
  measure()
  if level == room and returned > 1e15 then -- in a thousand years; receipts from before are larger than any to come
    returned = 0
  end
end

local function begin()
  date, part, returned = now, 0, 0
  measure()
end

-- The same permits under another rate. Receipts from before are worth nothing: they count refill at the old one.
local function reshape()
  local had = level
  returned = returned + full() - now
  date, part = now, 0
  measure()
  if had < room and share > 0 then
    move(room - had)
  end
end

-- What is reserved was promised at the rate in force.
local function held()
  return level < 0 and share or 0
end

local function receipt()
  return full() + returned
end

local function pace()
  return 0, 0
end

function retry(n)
  if n > room then
    return -1
  end
  return wait(n)
end

local function refund(n, at)
  local ahead, had = at - returned - now, level
  if share == 0 or ahead <= 0 or ahead > full() - now or returned > 4e15 then
    return 0
  end
  if n > room - level then
    n = room - level
  end
  local us, more = muldiv(window, n, 0, share)
  if more > 0 then
    us = us + 1
  end
  if us <= ahead then
    back(n)
    returned = returned + us
  else
    date = date - ahead
    returned = returned + ahead
  end
  measure()
  return level - had < n and level - had or n
end
