-- tokenbucket_remind = packed_names + packed + bucket + tokenbucket + packed_load + packed_remind
--   with remind, stepped
-- [packed_names.lua]
-- One-string algorithms, before anything else: how the string begins, and whether the operation is
-- a take.
local MAGIC, TAKES = 'TKB3', false
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
-- [tokenbucket.lua]
-- Token bucket: what is in it may be used at once.
--
-- Its own columns: the date; the microseconds of refill that refunds have taken off it so far;
-- then, unless all of it is empty, how many notes there are, the notes, at most 16, by
-- receipt, and what is booked ahead, at most 512 bookings, by date.
-- tokens  150 date(16)  166 part(13)  179 returned(16)  195 returned_part(13)  208 count(2)
--         210 notes(to the end)
-- note  1 receipt(16)  17 permits(13)  30 next(to the end)
-- booking  1 date(16)  17 receipt(16)  33 permits(13)  = 45 bytes
--
-- A share that falls clamps the bucket at once, and the reply says how many permits that took out.
-- A share that rises adds nothing of its own: only what comes with it as a gift, no more than the
-- room that is new. Drivers give what other shards said they gave up. So permits and the room still
-- to be raised sum to at most the burst, and the shares to at most the limit. What all shards grant
-- in any t is at most a burst, plus what they gained: limit*t.
--
-- A refund must not bring back what would have overflowed meanwhile. date + returned never runs
-- back, whatever is refunded: each grant moves it on, and its value just after, rounded up, is the
-- receipt. So the receipt tells how many permits were granted since; the notes, how many of these
-- were given back. A refund leaves at least as many missing as there remain: just what would be
-- missing if it had never been granted. So refunds of all grants before an instant s give back at
-- most what was missing at s, and the bound above holds. Whatever the order, all comes back that
-- can. What is booked counts as granted when it is due. What overflowed because of it moves the
-- date on as a grant would, so receipts from before can gain no more than is missing besides the
-- bookings: nothing.
--
-- Permits booked ahead are taken out at once, and used when the level is back at 0. If others are
-- cancelled, or the rate rises, it is so earlier. Until they are used they are in the bucket all
-- the same, so up to each date the level must stay below `room` by what is booked from there on:
-- yield sees to that. It is not stored, because what is booked may be canceled before anything
-- flows over, and then leaves no trace.
--
-- Every call reads all bookings. So from 64 on, for each further one the first two in a
-- row that are no more than the room become one, with the later date and the earlier receipt. They
-- keep more of the room for longer, and count as used after more of what was granted: at least what
-- holds for the two. Where each is due when the level is back at 0 that costs nothing, as they
-- leave at least as much of the room. One that is cancelled then is given back as if it were no
-- booking.
local returned, returned_part = 0, 0
local notes, bookings = '', ''
local own_date, own_part, raised = 0, 0, false -- the date without what yield adds to it, while that is there
local own_level = 0                            -- the level then
local gave = 0                                 -- permits that no longer have room, as the share or the burst fell

local function parse(state)
  date, part, returned, returned_part =
    sub(state, 150, 165) + 0, sub(state, 166, 178) + 0, sub(state, 179, 194) + 0,
      sub(state, 195, 207) + 0
  if #state > 207 then
    local from = 210 + 29 * sub(state, 208, 209)
    notes, bookings = sub(state, 210, from - 1), sub(state, from)
    if from < 210 or from > 210 + 464
      or from % 29 ~= 210 % 29 or from > #state + 1 then
      return false
    end
  end
  return #bookings % 45 == 0 and #bookings <= 23040 and date < 1e16 and part >= 0
    and (part < share or part == 0) and returned >= 0 and returned < 1e16
    and returned_part >= 0 and (returned_part < share or returned_part == 0)
end

local function text()
  local own =
    format('%16d%13d%16d%13d', raised and own_date or date, raised and own_part or part, returned,
      returned_part)
  if notes ~= '' or bookings ~= '' then
    return own .. format('%2d', #notes / 29) .. notes .. bookings
  end
  return own
end

-- Date + returned, rounded up.
function receipt()
  local day, rest = date, part
  if raised then
    day, rest = own_date, own_part
  end
  rest = rest + returned_part
  return day + returned + (rest > share and 2 or rest > 0 and 1 or 0)
end

local yield, bare, overflow, sum_booked, move_on, note -- made only where something may be booked or refunded

local function prepare_notes()
  -- Notes that the date was taken back by so many us and parts.
  function move_on(us, rest)
    returned, returned_part = returned + us, returned_part + rest
    if returned_part < 0 then
      returned, returned_part = returned - 1, returned_part + share
    end
    if returned_part >= share then
      returned, returned_part = returned + 1, returned_part - share
    end
  end

  -- Remembers what was given back. Where there is no room for one more, the two oldest are put
  -- together: what was granted between them may get less back.
  function note(at, permits)
    if permits == 0 then
      return
    end
    local last = #notes
    while last > 0 and sub(notes, last - 28, last - 13) + 0 > at do
      last = last - 29
    end
    local function entry(stamp, n)
      return format('%16d%13d', stamp, n < 9999999999999 and n or 9999999999999)
    end
    if last > 0 and sub(notes, last - 28, last - 13) + 0 == at then
      notes =
        sub(notes, 1, last - 29) .. entry(at, sub(notes, last - 12, last) + permits)
          .. sub(notes, last + 1)
      return
    end
    if #notes == 464 then
      notes =
        entry(sub(notes, 1, 16) + 0, sub(notes, 17, 29) + sub(notes, 46, 58))
          .. sub(notes, 59)
      last = last > 29 and last - 29 or last
    end
    notes = sub(notes, 1, last) .. entry(at, permits) .. sub(notes, last + 1)
  end
end

local function prepare()
  prepare_notes()

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
    if raised then
      measure()
      own_date, own_part, own_level = date, part, level
    end
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

  -- Drops the bookings that are due. What flowed over up to now, because the bucket was full with
  -- what is booked, is gone.
  function overflow()
    local later, from = sum_booked(), 1
    while from < #bookings and sub(bookings, from, from + 15) + 0 <= now do
      at_least(sub(bookings, from, from + 15) + 0, later)
      local due = sub(bookings, from + 32, from + 44) + 0
      later = later - due
      -- it counts as granted now, after what was granted since it was booked
      note(sub(bookings, from + 16, from + 31) + 0, due)
      local us, rest = span(due, 0)
      if us < FAR then
        move_on(us, rest)
      end
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
  if full() == now then -- nothing of what was granted so far is left to gain
    if returned_part > 0 then
      returned, returned_part = returned + 1, 0
    end
    if returned > 1e15 then -- in a thousand years; receipts from before are larger than any to come
      returned = 0
    end
    notes = ''
  end
  if bookings ~= '' then
    if TAKES and as_proposed then
      prepare()
    end
    overflow()
    yield()
  end
end

local function grant(n)
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
  -- All receipts so far are worth nothing.
  local function leave()
    returned = returned + full() - now + (returned_part > 0 and 1 or 0)
    returned_part, notes = 0, ''
  end

  function begin()
    date, part, returned, returned_part, notes, bookings, raised = now, 0, 0, 0, '', '', false
    measure()
  end

  -- The same permits under another rate, and a gift for the room that is new. Receipts from before
  -- are worth nothing: they count refill at the old rate.
  --
  -- ARGV[4] of a take that asks for nothing, if anything: permits for so much new room; for less
  -- room as much less
  function reshape()
    if target == 0 and burst > 0 then
      return measure()
    end
    local had, was = raised and own_level or level, room -- under the old rate
    bare()
    leave()
    date, part = now, 0
    measure()
    local keep = had
    if TAKES and room > was and ARGV[4] and #ARGV[4] == 26 then
      local gift, rise = sub(ARGV[4], 1, 13) + 0, sub(ARGV[4], 14, 26) + 0
      if room - was < rise then
        gift = muldiv(gift, room - was, 0, rise)
      end
      keep = had + (gift < room - was and gift or room - was)
    end
    if keep < room and share > 0 then
      move(room - keep)
    end
    if had > 0 and had > level then
      gave = had - (level > 0 and level or 0)
    end
    yield()
  end

  -- What it may have granted in the window that ends now is what is missing and what it gained;
  -- that and what its share then lets others grant are at most a burst and a window's gain, if the
  -- share falls to what would be in a bucket without a rim.
  function retire()
    leave()
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

  -- What is reserved was dated at the rate in force.
  function held()
    if target == 0 and burst > 0 then
      return ebb()
    end
    return (level < 0 or bookings ~= '') and share or 0
  end
end

if not TAKES then
  -- How many of n permits may be charged, if the bucket is to be full within so many us.
  function overdraw(n, us)
    if share == 0 or retired then
      return 0, 0
    end
    return payable(n, us), 0
  end

  -- Where the first of two bookings begins that can become one, nil if there are none.
  local function pair()
    for from = 1, #bookings - 45, 45 do
      local other = from + 45
      if sub(bookings, from + 32, from + 44) + sub(bookings, other + 32, other + 44) <= room then
        return from
      end
    end
  end

  function earliest(n, after)
    local us = retry(n)
    return us >= 0 and us < after and after or us,
      share <= target and (#bookings < 23040 or pair())
  end

  -- Makes two bookings one.
  local function join(from)
    local other = from + 45
    local at, its = sub(bookings, from + 16, from + 31) + 0, sub(bookings, other + 16, other + 31) + 0
    bookings =
      sub(bookings, 1, from - 1)
        .. format('%16d%16d%13d', sub(bookings, other, other + 15), its < at and its or at,
          sub(bookings, from + 32, from + 44) + sub(bookings, other + 32, other + 44))
        .. sub(bookings, other + 45)
  end

  function book(n, us)
    local from = us > 0 and #bookings >= 2880 and pair()
    if from then
      join(from)
    end
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

  -- It is full when it was to be, as last heard.
  function remind(_, _, full_in)
    local had = level
    bare()
    if retired or date >= now + full_in then
      yield()
      return 0, false
    end
    date, part = now + full_in, 0
    yield()
    return had > level and had - level or 0, true
  end

  booked = sum_booked

  -- Takes up to n permits off the bookings with this receipt, which are several only within a
  -- microsecond, and returns how many.
  local function cancel(n, at)
    local canceled = 0
    for last = #bookings, 1, -45 do
      if canceled < n and sub(bookings, last - 28, last - 13) + 0 == at then
        local had = sub(bookings, last - 12, last) + 0
        local taken = had < n - canceled and had or n - canceled
        local entry =
          taken < had and sub(bookings, last - 44, last - 13) .. format('%13d', had - taken)
            or ''
        bookings = sub(bookings, 1, last - 45) .. entry .. sub(bookings, last + 1)
        canceled = canceled + taken
      end
    end
    return canceled
  end

  -- How many permits were granted after the grant with this receipt, or are used after it, and not
  -- given back: at least as many as there were.
  local function since(at)
    local us, more = date + returned, part + returned_part
    if more >= share then
      us, more = us + 1, more - share
    end
    if at > us and (at > us + 1 or more == 0) then
      return FAR
    end
    us, more = us - at + 1, more - 1
    if more < 0 then
      us, more = us - 1, more + share
    end
    if us >= FAR or share * us / window >= FAR then
      return FAR
    end
    local permits = muldiv(share, us, more, window)
    for last = #notes, 1, -29 do
      if sub(notes, last - 28, last - 13) + 0 > at then
        permits = permits - sub(notes, last - 12, last)
      end
    end
    permits = permits > 0 and permits or 0
    for last = #bookings, 1, -45 do
      if sub(bookings, last - 28, last - 13) + 0 < at then
        permits = permits + sub(bookings, last - 12, last)
      end
    end
    return permits
  end

  -- Puts back what is left to gain of n permits that were granted, and returns how many these are.
  local function regain(n, at)
    local remain, missing, had = since(at), room - level, level
    if remain >= missing or missing >= FAR then
      return 0
    end
    if n > missing then
      n = missing
    end
    local whole = muldiv(share, date - now, part, window)
    if remain + n <= whole then
      back(n)
      note(at, n)
    else
      local us, rest = span(remain, 0)
      date, part = now + us, rest
      note(at, whole - remain)
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
    local was_date, was_part = date, part
    local refunded = cancel(n, at)
    if refunded > 0 then
      back(refunded) -- it was not used yet, so it is all there
      note(at, refunded)
    else
      refunded = regain(n, at)
    end
    move_on(was_date - date, was_part - part)
    yield()
    return refunded
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
-- [packed_remind.lua]
-- One-string algorithms, remind: count what the shard forgot. The algorithm's part has the function
-- remind(dated, permits, full): count permits dated so, or a bucket full again after so many us;
-- returns the permits that it counted, and whether the state changed.
if not head then
  return {0, 0, 0}
end
-- [remind.lua]
-- Remind: what the process was granted that the shard forgot.
--
-- ARGV  1 closed_until of the loss of which the caller has reminded the shard before; until a
--       bucket is full again us, and the share, the window and closed_until when that was heard;
--       then of each grant, in the order of their dates: closed_until when it was granted, the age
--       of its date us, below zero if that is ahead, and permits
-- reminder  1 known(16)  17 full(16)  33 share(13)  46 window(13)  59 under(16)
--           75 grants(to the end)
-- granted  1 under(16)  17 age(16)  33 permits(13)  = 45 bytes
-- Reply status, closed_until, permits that were entered
--
-- What was granted under another closed_until, was so before the loss. Ages grow on the way, so
-- dates become later and never earlier.
local reminded = closed_until > 0 and closed_until ~= sub(ARGV[1], 1, 16) + 0
local dated, permits = {}, {}
if reminded then
  for from = 75, #ARGV[1], 45 do
    local at = now - sub(ARGV[1], from + 16, from + 31)
    if sub(ARGV[1], from, from + 15) + 0 ~= closed_until and at > now - window then
      dated[#dated + 1], permits[#dated + 1] = at, sub(ARGV[1], from + 32, from + 44) + 0
    end
  end
end
local entered, changed = 0, false
if reminded then
  local full_in = 0 -- what was heard since the loss, or at another rate, would empty a bucket
  if sub(ARGV[1], 33, 45) + 0 == share and sub(ARGV[1], 46, 58) + 0 == window
    and sub(ARGV[1], 59, 74) + 0 ~= closed_until then
    full_in = sub(ARGV[1], 17, 32) + 0
  end
  entered, changed = remind(dated, permits, full_in)
end
if changed then
  local state = format(FORM, MAGIC, epoch, target, share, start, window, closed_until, offset, now, burst, contended)
    .. text()
  local left, life = redis.pcall('PTTL', KEYS[1]), ceil((reset() + 2 * window) / 1000) + 60000
  if type(left) == 'number' and left > life then
    life = left
  end
  local done = redis.pcall('SET', KEYS[1], state, 'PX', format('%d', life))
  if type(done) == 'table' and done.err then
    return {-2, done.err}
  end
elseif stepped then
  -- [stepped.lua]
  -- The clock went back: what makes up for it is stored, under every algorithm in the same place.
  local done = redis.pcall('SETRANGE', KEYS[1], '88', format('%16d', offset))
  if type(done) == 'table' then
    return {-2, done.err}
  end
end
return {1, closed_until, entered}
