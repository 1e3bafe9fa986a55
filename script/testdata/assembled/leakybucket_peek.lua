-- leakybucket_peek = packed_names + packed + bucket + leakybucket + packed_load + packed_peek with
--   quarantine, packed_least
-- [packed_names.lua]
-- One-string algorithms, before anything else: how the string begins, and whether the operation is
-- a take.
local MAGIC, TAKES = 'LKB1', false
-- [packed.lua]
-- One-string algorithms, part 1 of every operation but drop: the names that all parts share; read
-- the clock and the string.
--
-- A shard of SlidingCounter, FixedWindow, TokenBucket or LeakyBucket is one string: what all have
-- in common, then what the algorithm keeps (see its own part, which follows this one). KEYS[1] is
-- that string, KEYS[2] the ledger of participants that contend.
--
-- What is stored: name(bytes) of each column, behind where it begins, counted from 1; `contended`:
-- see fair.lua.
-- packed  1 magic(4)  5 epoch(16)  21 target(13)  34 share(13)  47 start(13)  60 window(13)
--         73 closed_until(16)  89 offset(16)  105 touched(16)  121 burst(13)  134 contended(16)
--         150 own(to the end)
--
-- All times are integers in microseconds of the shard's clock, which is the node's TIME plus an
-- offset that makes up for steps back: it never runs back past `touched`, when the string was last
-- written. Numbers are padded with blanks: zeros would read as octal on miniredis.
--
-- Status codes, first in every reply:  -2 the server refused the first write (its text follows;
--                                      nothing was written)
--   -1 a value under key number reply[2] is not ours, or reply[3] is what the server said of it
--   instead
--   0 absent  1 ok  2 fresh  3 lost
--
-- The algorithm's part defines, over the names below:
--   parse(head)  read its own fields; false or an error if they cannot be its own  text()
--                write them
--   begin()  the fields of a shard that was never used  advance()  bring them to `now`
--   regrid(was)  the window was `was` and is another now  reshape()  window, share or burst changed
--   shifted()       windows are proposed to begin at other instants, where the algorithm has such
--   lasts()         us for which what a lost state granted may still be in use
--   held()  what the share must not fall below  used(), free()  permits
--   grant(n)  book n permits that are free  refund(n, at)  free up to n again; returns how many
--   overdraw(n, us)  how many of n that were used already are counted, so that a bucket is full
--                    within so many us; and the us that book needs for them
--   earliest(n, after)  us, at least `after`, until n may be used if booked now, -1 never; and
--                      whether they can be booked
--   book(n, us)  book them; returns what refund needs as `at`  booked()  permits booked ahead
--   soonest()  us until more is free, 0 if everything is  reset()  us until everything is
--              retry(n)  us until n are, -1 never
--   receipt()       what refund needs as `at`, after a grant, if not `now`
--   releases(reply) when what is used comes back: us and permits, added to the reply
--   beside(reply)   what stands beside takes from when on, likewise, if it is not what the releases
--                   leave of what is used
--   remind(dated, permits, full)  see packed_remind.lua
--   falls()         us until a share above its target falls next, if that is not soonest() or
--                   reset()
--   pace()          delay of the first permit granted next, if it is not 0: us, and a part of a us
--                   over share
local sub, find, format, floor, ceil = string.sub, string.find, string.format, math.floor, math.ceil
local FORM = '%s%16d%13d%13d%13d%13d%16d%16d%16d%13d%16d'
local epoch, target, share, window, closed_until, offset, touched, burst, contended = 0, 0, 0, 0, 0, 0, 0, 0, 0
local start -- nil: not read yet, and neither is epoch: see packed_rest.lua
-- To make a function costs more than most calls of it, so those that few calls need are made only
-- then.
local begin, regrid, shifted, reshape, retire, lasts, held -- unless all is as proposed
local refund, earliest, book, booked, overdraw, releases, remind -- unless the operation is a take: TAKES
local receipt, pace, beside, falls                -- where the algorithm has them
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local head = redis.pcall('GET', KEYS[1])
local as_proposed = false -- the string begins with what a take or a reservation proposes
local stepped = false -- the clock went back: the new offset must be stored
if head then
  -- cheaper than to cut out what is compared
  as_proposed = type(head) == 'string' and ARGV[1] and find(head, ARGV[1], 1, true) == 1
  if #head < 150 or not as_proposed and sub(head, 1, 4) ~= MAGIC then -- or an error, which is a table
    return {-1, 1, head.err}
  end
end
-- [bucket.lua]
-- Token and leaky bucket, the part they share: one date says it all.
--
-- A bucket of `room` permits that gains `share` per window is full again at date + part/share
-- microseconds, if nothing more is taken. So what is in it is `room` less what it will have gained
-- until then, a grant of n moves the date on by n*window/share, and idleness costs nothing. The
-- part of a microsecond is kept as the numerator over the share, so nothing is ever rounded and no
-- rate drifts. The leaky bucket reads the same date as the instant at which the next permit may
-- act.
--
-- A bucket that leaves to another algorithm (target 0, burst > 0: the share it had) grants nothing.
-- What it let through counts in its windows but is not in it, and the others do not know of it, so
-- it keeps that much of its share: none at `date`, and in the window before it as much as its rate
-- adds.
local date, part = 0, 0
local retry -- each of the two has its own
local retire_at, ebb, back, payable
local FAR = 1000000000000000 -- bounds what is missing, and us, where a queue meets quite another rate: nothing overflows
-- the burst that goes with the share in force; the permits in the bucket: below zero what is
-- reserved
local room, level = 0, 0
local retired = false    -- it leaves to another algorithm

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

local function measure()
  room, retired = burst, target == 0 and burst > 0
  if retired then
    room = 0
  elseif share < target then
    room = muldiv(burst, share, 0, target)
  end
  if full() <= now then
    date, part = now, 0
  end
  level = room
  if share == 0 or retired then
    level = 0
  elseif date > now or part > 0 then
    local missing, more = FAR, 0
    if share * (date - now) / window < FAR then
      missing, more = muldiv(share, date - now, part, window)
    end
    level = room - missing
    if more > 0 then
      level = level - 1
    end
  end
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
  return retired and share or room - level -- who leaves to another algorithm keeps back what is in use
end

local function free()
  return share <= target and level > 0 and level or 0
end

local function reset()
  return full() - now
end

-- Microseconds until n permits are in the bucket.
local function wait(n)
  if n <= level then
    return 0
  end
  local us, less = muldiv(window, room - n, 0, share)
  return date - us + (less < part and 1 or 0) - now
end

local function soonest()
  if level >= room then
    return 0
  end
  local us = retry(level > 0 and level + 1 or 1)
  return us < 0 and reset() or us
end

if not as_proposed then
  function retire_at(at)
    date, part = at > now and at or now, 0
  end

  -- What a retired bucket still keeps: never more than before.
  function ebb()
    local left = date - now
    if left >= window then
      return share
    end
    local keep, more = muldiv(burst, left > 0 and left or 0, 0, window)
    if more > 0 then
      keep = keep + 1
    end
    return keep
  end

  -- How long a retired bucket keeps its share was counted in the old window.
  function regrid()
    retired = false
  end
end

if not TAKES then
  -- As many of n permits as the bucket gains until it is full, if that is in us at the latest.
  function payable(n, us)
    local left = now + us - full()
    if left <= 0 then
      return 0
    end
    if share * left / window >= n then
      return n
    end
    local most = muldiv(share, left, 0, window)
    return most < n and most or n
  end

  -- The exact opposite of grant.
  function back(n)
    local us, less = muldiv(window, n, 0, share)
    date, part = date - us, part - less
    if part < 0 then
      date, part = date - 1, part + share
    end
  end

  function releases(reply)
    local from, step = level, ceil((room - level) / 32)
    while from < room do
      local to = from + step < room and from + step or room
      reply[#reply + 1] = retry(to)
      reply[#reply + 1] = to - from
      from = to
    end
  end
end
-- [leakybucket.lua]
-- Leaky bucket: permits act one after the other, window/share apart; what is in the bucket waits
-- for its turn.
--
-- Its own columns: when the next permit may act.
-- leaky  150 date(16)  166 part(13)  = 178 bytes
--
-- A share falls when the last permit granted under it has acted, and nothing is granted until then;
-- it rises at once, for what is granted from then on. So at every instant the rates at which the
-- shards let permits act sum to at most the limit.
local function parse(state)
  date, part = sub(state, 150, 165) + 0, sub(state, 166, 178) + 0
  return #state == 178 and date < 1e16 and part >= 0 and (part < share or part == 0)
end

local function text()
  return format('%16d%13d', date, part)
end

local grant = move
local idle = 0 -- microseconds for which no turn has been due

local function advance()
  if now > full() then
    idle = now - full()
  end
  measure()
end

function pace()
  return date - now, part
end

function retry(n)
  if n > room or n > burst then
    return -1
  end
  return share > target and reset() or wait(n)
end

if not as_proposed then
  function begin()
    date, part = now, 0
    measure()
  end

  -- Turns that were given stay; the next one comes when it would have, rounded up as the part
  -- counts in another share.
  function reshape()
    if not (target == 0 and burst > 0) then
      date, part = full(), 0
      if retired then -- the next turn was a window before
        date = date - window > now and date - window or now
      end
    end
    measure()
  end

  -- What acted in the window that ends now is at most what its rate lets act from then on until the
  -- last turn.
  function retire()
    retire_at(full() - idle + window)
  end

  -- The queue may be longer than a window.
  function lasts()
    local us, rest = window, 0
    if target > 0 and burst > target then
      us, rest = muldiv(window, burst, 0, target)
    end
    return rest > 0 and us + 1 or us
  end

  function held()
    if target == 0 and burst > 0 then
      return ebb()
    end
    return full() > now and share or 0
  end
end

if not TAKES then
  -- An ask acts with its last permit.
  local function turn(n)
    local us, rest = muldiv(window, n - 1, part, share)
    return date + us + (rest > 0 and 1 or 0) - now
  end

  -- How many of n turns may be charged, if the last is to come within so many us, and when it does.
  function overdraw(n, us)
    if share == 0 or retired then
      return 0, 0
    end
    n = payable(n, us)
    return n, n > 0 and turn(n) or 0
  end

  -- Turns may be reserved behind the queue. They count as in it, so nothing is granted at once
  -- until it is shorter again.
  function earliest(n, after)
    if share > target or n > room or n > burst then
      return retry(n), false
    end
    local us = turn(n)
    return us < after and after or us, true
  end

  -- Where the turns are to come later than they would, nobody has those before.
  function book(n, us)
    date = date + us - turn(n)
    grant(n)
    measure()
    return now + us
  end

  -- The next turn comes after those that were given, as last heard.
  function remind(_, _, full_in)
    local had = level
    if retired or date >= now + full_in then
      return 0, false
    end
    date, part = now + full_in, 0
    measure()
    return had > level and had - level or 0, true
  end

  function booked()
    return used()
  end

  -- Only the last turns given can be taken back: the others would leave holes. `at` is when the
  -- last permit of the grant acts.
  function refund(n, at)
    if share == 0 or retired or at <= now then
      return 0
    end
    local last, rest, had = date, part, level
    back(1)
    if full() ~= at then
      date, part = last, rest
      return 0
    end
    if n > room - level then
      n = room - level
    end
    if n > 1 then
      back(n - 1)
    end
    measure()
    return level - had < n and level - had or n
  end
end
-- [packed_load.lua]
-- One-string algorithms, part 3 of every operation but drop: read the state, bring it to now.
local calm = false -- all is as proposed, and closed_until, offset and contended are 0
if head then
  local sound, own
  calm =
    as_proposed
      and find(head, '               0               0', 73, true) == 73
        and find(head, '               0', 134, true) == 134
  if calm then
    sound, target, share, window, touched, burst = pcall(function(state, slice)
      return slice(state, 21, 33) + 0, slice(state, 34, 46) + 0, slice(state, 60, 72) + 0,
        slice(state, 105, 120) + 0, slice(state, 121, 133) + 0
    end, head, sub)
  else
    sound, epoch, target, share, start, window, closed_until, offset, touched, burst, contended =
      pcall(function(state, slice)
        return slice(state, 5, 20) + 0, slice(state, 21, 33) + 0, slice(state, 34, 46) + 0,
          slice(state, 47, 59) + 0, slice(state, 60, 72) + 0,
          slice(state, 73, 88) + 0, slice(state, 89, 104) + 0, slice(state, 105, 120) + 0,
          slice(state, 121, 133) + 0, slice(state, 134, 149) + 0
      end, head, sub)
  end
  if sound then
    sound, own = pcall(parse, head)
  end
  -- Also false for NaN and infinity, which strtod accepts.
  if not (sound and own and (as_proposed or epoch >= 1) and window >= 1000 and target >= 0 and target < 1e13
    and share >= 0 and share < 1e13
    and closed_until < 1e16 and offset < 1e16 and touched < 1e16 and burst >= 0 and burst < 1e13
      and contended < 1e16) then
    return {-1, 1}
  end
  now = now + offset
  if now < touched then
    offset = offset + touched - now
    now = touched
    stepped = true
  end
  advance()
end
-- [packed_peek.lua]
-- One-string algorithms, peek: what a take that asks for nothing would find. Writes nothing,
-- creates nothing.
--
-- Reply status, epoch, target, share, start, used, window us, quarantine left us, reset us, free,
-- number of loads (0: what the releases leave),
--       then in us, permits of each load: what stands beside takes from then on, at most 9 then in
--       us, permits of each release, oldest first: at most 32, neighbours merged into the later one
if not head then
  return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
end
-- [quarantine.lua]
-- How much of the quarantine is left, us.
local closed = 0
if closed_until > now then
  closed = closed_until - now
end
if share > target and closed == 0 then
  -- [packed_least.lua]
  -- One-string algorithms: what the share comes down to while it is above its target.
  local least = held()
  if least < target then
    least = target
  end
  if least < share then
    share = least
    reshape()
  end
end
local again = reset()
if again < closed then
  again = closed
end
local reply = {1, epoch, target, share, start, used(), window, closed, again, closed > 0 and 0 or free(), 0}
if beside then
  beside(reply)
  reply[11] = (#reply - 11) / 2
end
releases(reply)
return reply
