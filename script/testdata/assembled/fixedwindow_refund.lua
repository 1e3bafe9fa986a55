-- fixedwindow_refund = packed_names + packed + fixedwindow + packed_load + packed_refund with
--   packed_least, packed_store, stepped, fair_restore, fair_pace, fair_account, fair_ledger,
--   fair_counters, fair_record
-- [packed_names.lua]
-- One-string algorithms, before anything else: how the string begins, and whether the operation is
-- a take.
local MAGIC, TAKES = 'FXW1', false
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
-- [fixedwindow.lua]
-- Fixed window: at most `share` permits in each window of the shard's clock; windows begin at
-- multiples of their length and an edge that comes with the proposal. What is stored tells it: a
-- window began there.
--
-- Its own columns: when the window began; what was granted before `since` is forgotten; permits
-- granted in the window, and reserved in each of the next seven, which is blank if nothing is.
-- windows  150 opened(16)  166 since(16)  182 count(13)  195 later(7 x 13)  = 285 bytes
local opened, since, counts = 0, 0, {0, 0, 0, 0, 0, 0, 0, 0}
local reserved = false -- something is reserved in a later window
local BLANK = '                                                                                           '

local function parse(state)
  opened, since, counts[1] =
    sub(state, 150, 165) + 0, sub(state, 166, 181) + 0, sub(state, 182, 194) + 0
  if find(state, BLANK, 195, true) ~= 195 then
    reserved = true
    for i = 2, 8 do
      counts[i] = sub(state, 13 * i + 169, 13 * i + 181) + 0
      if not (counts[i] >= 0 and counts[i] < 1e13) then
        return false
      end
    end
  end
  return #state == 285 and opened < 1e16 and since < 1e16 and counts[1] >= 0 and counts[1] < 1e13
end

local function text()
  if not reserved then
    return format('%16d%16d%13d', opened, since, counts[1]) .. BLANK
  end
  return format('%16d%16d%13d%13d%13d%13d%13d%13d%13d%13d', opened, since, unpack(counts))
end

local function advance()
  local passed = floor((now - opened) / window)
  if passed <= 0 then
    return
  end
  opened = opened + passed * window
  since = opened
  if not reserved then
    counts[1] = 0
    return
  end
  reserved = false
  for i = 1, 8 do
    counts[i] = counts[i + passed] or 0
    reserved = reserved or i > 1 and counts[i] > 0
  end
end

local function used()
  return counts[1]
end

-- A share still above its target, because of what is booked in a later window, leaves no more than
-- the target does.
local function free()
  local most = share < target and share or target
  return counts[1] < most and most - counts[1] or 0
end

local function grant(n)
  counts[1] = counts[1] + n
end

local function reset()
  for i = 8, 1, -1 do
    if counts[i] > 0 then
      return opened + i * window - now
    end
  end
  return 0
end

local function retry(n)
  local most = share < target and share or target
  if n > most then
    return -1
  end
  local i = 1
  while i <= 8 and counts[i] + n > most do
    i = i + 1
  end
  return i > 1 and opened + (i - 1) * window - now or 0
end

local function soonest()
  if counts[1] == 0 then
    return 0
  end
  local us = free() > 0 and opened + window - now or retry(1)
  return us < 0 and reset() or us
end

if not as_proposed then
  function falls()
    return opened + window - now
  end

  local function opening()
    return now - (now - sub(ARGV[2], 89, 101)) % window
  end

  -- The first window, or nothing in the one that is.
  function begin()
    if not head then
      opened = opening()
    end
    since, counts, reserved = now, {0, 0, 0, 0, 0, 0, 0, 0}, false
  end

  function shifted()
    return (opened - sub(ARGV[2], 89, 101)) % window ~= 0
  end

  -- What was counted stays counted, in the window that now holds the beginning of the one in which
  -- it was.
  function regrid(was)
    local old, from = counts, opened
    opened, counts, reserved = opening(), {0, 0, 0, 0, 0, 0, 0, 0}, false
    for i = 1, 8 do
      local later = floor((from + (i - 1) * was - opened) / window)
      if later < 0 then
        later = 0
      end
      counts[later > 7 and 8 or later + 1] = counts[later > 7 and 8 or later + 1] + old[i]
      reserved = reserved or later > 0 and old[i] > 0
    end
  end

  function retire()
  end

  function reshape()
  end

  function lasts()
    return window
  end

  function held()
    local most = 0
    for i = 1, 8 do
      if counts[i] > most then
        most = counts[i]
      end
    end
    return most
  end
end

if not TAKES then
  function remind(dated, permits)
    local entered = 0
    for k = #dated, 1, -1 do
      local i = floor((dated[k] - opened) / window)
      if i >= 0 and i <= 7 then
        local room = 1000000000000 - counts[i + 1]
        local n = permits[k] < room and permits[k] or room
        if n > 0 then
          counts[i + 1], entered = counts[i + 1] + n, entered + n
          reserved = reserved or i > 0
          if share < counts[i + 1] then
            share = counts[i + 1]
            start = start < share and share or start
          end
        end
      end
    end
    return entered, entered > 0
  end

  function booked()
    local sum = 0
    for i = 2, 8 do
      sum = sum + counts[i]
    end
    return sum
  end

  -- How many of n permits make a difference: with the share, nothing is free in this window.
  function overdraw(n)
    local most = share < 9000000000000 - counts[1] and share or 9000000000000 - counts[1]
    return n < most and n or most > 0 and most or 0, 0
  end

  function refund(n, at)
    local i = floor((at - opened) / window) + 1
    if at < since or i < 1 or i > 8 then
      return 0
    end
    if n > counts[i] then
      n = counts[i]
    end
    counts[i] = counts[i] - n
    reserved = reserved and booked() > 0
    return n
  end

  function earliest(n, after)
    if after == 0 and n <= free() then
      return 0, true
    end
    local most, i = share < target and share or target, floor((now + after - opened) / window) + 1
    if n > most then
      return -1, false
    end
    while i <= 8 and counts[i] + n > most do
      i = i + 1
    end
    local us = opened + (i - 1) * window - now
    return us < after and after or us, i <= 8
  end

  function book(n, us)
    local i = floor((now + us - opened) / window) + 1
    counts[i] = counts[i] + n
    reserved = reserved or i > 1
    return now + us
  end

  function releases(reply)
    if counts[1] > 0 then
      reply[#reply + 1] = opened + window - now
      reply[#reply + 1] = counts[1]
    end
  end

  function beside(reply)
    for i = 1, 8 do
      reply[#reply + 1] = i > 1 and opened + (i - 1) * window - now or 0
      reply[#reply + 1] = counts[i]
    end
    reply[#reply + 1] = opened + 8 * window - now
    reply[#reply + 1] = 0
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
-- [packed_refund.lua]
-- One-string algorithms, refund: give back permits of the grant whose receipt is `at`. Keeps the
-- time to live.
--
-- ARGV  1 permits  2 at
--       3, 4 of whom: see fair_restore.lua
-- Reply status, refunded, free, epoch, share
if not head then
  return {0, 0, 0, 0, 0}
end
local refunded = refund(ARGV[1] + 0, ARGV[2] + 0)
local closed = closed_until > now
local lowered = false
if share > target and not closed then
  -- [packed_least.lua]
  -- One-string algorithms: what the share comes down to while it is above its target.
  local least = held()
  if least < target then
    least = target
  end
  if least < share then
    share, lowered = least, true
    reshape()
  end
end
if refunded > 0 or lowered then
  -- [packed_store.lua]
  -- One-string algorithms: writes the state, which keeps its time to live.
  local state = format(FORM, MAGIC, epoch, target, share, start, window, closed_until, offset, now, burst, contended)
    .. text()
  local done = redis.pcall('SET', KEYS[1], state, 'KEEPTTL')
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
-- [fair_restore.lua]
-- Fairness after a refund: while participants contend, what came back is not used any more, and its
-- participant has the credit again, less the price of what it held up: what was held for half a
-- window costs as much as what was used.
--
-- ARGV  3 id  4 slot or -1: of whom it was granted to; none where it was anonymous
--       5 us for which it was held; earlier versions do not say: 0
-- Reads refunded. The ledger is never a reason for a refund to fail.
if refunded > 0 and ARGV[4] and contended > 0 and contended + 2 * window > now then
  pcall(function()
    local header = redis.call('GETRANGE', KEYS[#KEYS], '0', '150')
    if sub(header, 1, 4) ~= 'SLB5' then
      return
    end
    -- [fair_pace.lua]
    -- Fairness: by what participants are paced. While a share rises to its target, permits leave the
    -- window elsewhere as fast as if it were all here, and come here at once. So takes, bookings and
    -- refunds reckon as if it were.
    local goal = as_proposed and sub(ARGV[1], 21, 33) + 0 or target
    if goal < share then
      goal = share
    end
    local share = goal
    -- [fair_account.lua]
    -- Fairness outside of takes: the account of one participant. Included where participants contend,
    -- inside of a pcall.
    -- [fair_ledger.lua]
    -- Fairness: the accounts that a call looks at. Included where participants contend, inside of a
    -- pcall. `header` begins the ledger, or is empty.
    local floor, max, min, sqrt = math.floor, math.max, math.min, math.sqrt
    local b = {header = header, accounts = {}, entries = {}, count = 1, appointed = 0, spare = 0, heavy = 0, grants = {}}
    if header ~= '' then
      b.count, b.appointed = sub(header, 5, 9) + 0, sub(header, 10, 25) + 0
      b.spare, b.heavy = sub(header, 26, 41) + 0, sub(header, 42, 52) + 0
    end
    local weights = header ~= '' and sub(header, 141, 151) + 0 or 0
    b.stored, b.weights = b.count, weights
    local placed = {} -- slots of accounts, by id
    local cell, here = (now - now % window) / window, window - now % window

    local function fresh(id, weight)
      return {
        id = id, weight = weight, seen = now, claim = 0, filled = now, credit = 0, cell = 0, used = 0, used_before = 0,
        unmet = 0, unmet_before = 0, due = 0, denied = 0, waited = 0, lent = 0,
      }
    end
    local function read_account(line)
      return {
        id = sub(line, 2, 17), weight = sub(line, 18, 24) + 0, seen = sub(line, 25, 40) + 0,
        claim = sub(line, 41, 56) + 0, filled = sub(line, 57, 72) + 0,
        credit = sub(line, 73, 92) + 0, cell = sub(line, 93, 105) + 0,
        used = sub(line, 106, 118) + 0, used_before = sub(line, 119, 131) + 0,
        unmet = sub(line, 132, 147) + 0, unmet_before = sub(line, 148, 163) + 0,
        due = sub(line, 164, 179) + 0, denied = sub(line, 180, 195) + 0,
        waited = sub(line, 196, 205) + 0, lent = sub(line, 206, 225) + 0,
      }
    end
    -- The account of those who have none of their own.
    local function everybody()
      if not b.accounts[0] then
        b.accounts[0] = header == '' and fresh('****************', 1000)
          or read_account(redis.call('GETRANGE', KEYS[#KEYS], '151',
            format('%d', 151 + 225 - 1)))
      end
      return b.accounts[0]
    end
    -- [fair_counters.lua]
    -- Fairness: the counters of an account, used by takes and by bookings and refunds. `weights` is
    -- that of those who had a demand when the last pass ended.
    local function roll(a)
      if a.cell ~= cell then
        if a.cell == cell - 1 then
          a.used_before, a.unmet_before = a.used, a.unmet
        else
          a.used_before, a.unmet_before = 0, 0
        end
        a.used, a.unmet, a.cell = 0, 0, cell
      end
    end
    -- Notes whether its callers have been waiting in the last span of us.
    local function note_waiting(a, waiting, elapsed)
      local aim = waiting > 0 and 1000000000 or 0
      a.waited = a.waited + floor((aim - a.waited) * (min(elapsed * 2, window) / window))
    end
    -- Notes what a participant wants. booking is how many permits it books ahead, 0: none.
    local function note_claim(a, waiting, elapsed, booking)
      local in_use = floor(a.used * 1000 + a.used_before * 1000 * here / window)
      local greatest = max(in_use, a.used * 1000, a.used_before * 1000)
      local backed, kept = greatest * 2 + 4000, 0
      local passed = now - a.denied
      if passed >= -2 * window and passed * 2 <= window then
        backed = max(backed, floor(share * 1000 * a.weight / max(weights, a.weight) / 2))
        in_use = greatest
        if a.waited * 2 >= 1000000000 then
          kept = floor(a.claim * max(2 * window - max(elapsed, 1), 0) / (2 * window))
        end
      end
      if booking > 0 and a.credit >= 0 then
        backed = max(backed, min(booking * 1000, floor(share * 2000 * a.weight / max(weights, a.weight))))
      end
      local reported = in_use + floor(a.unmet + a.unmet_before * here / window) + waiting * 1000
      local unhindered = backed
      if a.waited * 2 < 1000000000 then
        unhindered = floor(in_use * 1000000000 / (1000000000 - a.waited))
      end
      a.claim = max(min(max(reported, unhindered), backed), kept)
    end
    -- Takes credit from what was lent, as far as the bucket holds it.
    local function draw(a, limit)
      if a.lent > 0 and a.credit < limit then
        local drawn = min(a.lent, limit - a.credit)
        a.credit, a.lent = a.credit + drawn, a.lent - drawn
      end
    end
    -- Gives the credit of the time until something comes back, in advance and beyond what the bucket
    -- holds: at most that of a window.
    local function lend(a, e, limit, next_us)
      local filled_to = now + min(next_us, window)
      if filled_to <= a.filled then
        return
      end
      local credit = a.credit + floor(e * 1000000 * (filled_to - a.filled) / window)
      if credit > limit then
        a.lent = max(a.lent, min(a.lent + credit - limit, floor(e * 1000000)))
        credit = limit
      end
      a.credit, a.filled = credit, filled_to
    end
    -- Adds the credit that came since the last time, as far as the bucket holds it.
    local function pour(a, e, limit)
      local credit = a.credit
      local gain = floor(e * 1000000 * max(now - a.filled, 0) / window)
      if gain >= 1000 then
        credit, a.filled = credit + gain, now
      end
      if a.filled - now > 3 * window then -- further than bookings reach: the clock was set back
        a.filled = now
      end
      a.credit = min(credit, limit)
      draw(a, limit)
    end
    -- What the shared account was charged for the first ask of a name that has come back is its own.
    local function settle(a)
      local s = everybody()
      a.cell = (a.filled - a.filled % window) / window
      roll(s)
      if s.cell == a.cell then
        s.used, s.unmet, s.unmet_before =
          max(0, s.used - a.used), max(0, s.unmet - a.unmet), max(0, s.unmet_before - a.unmet_before)
      elseif s.cell == a.cell + 1 then
        s.used_before, s.unmet_before = max(0, s.used_before - a.used), max(0, s.unmet_before - a.unmet)
      end
      note_claim(s, 0, window, 0)
      s.seen = now
    end
    -- The slot of a participant's own account, or -1.
    local function slot_of(id, slot)
      if placed[id] then
        return placed[id]
      end
      if slot > 0 and slot < b.stored then
        local from = 151 + slot * 225
        local line = redis.call('GETRANGE', KEYS[#KEYS], format('%d', from), format('%d', from + 225 - 1))
        if sub(line, 1, 17) == '#' .. id then
          b.accounts[slot] = read_account(line)
          return slot
        end
      end
      if b.stored > 1 then
        -- Once for all callers.
        b.all =
          b.all or redis.call('GETRANGE', KEYS[#KEYS], '0', format('%d', 151 + b.stored * 225 - 1))
        local from = string.find(b.all, '#' .. id, 151 + 225 + 1, true)
        if from then
          slot = (from - 1 - 151) / 225
          b.accounts[slot] = read_account(sub(b.all, from, from + 225 - 1))
          return slot
        end
      end
      return -1
    end
    -- A participant's own account, nil if it has none.
    local function account_of(id, slot)
      local a = b.accounts[slot_of(id, slot)]
      if a and a.cell == 0 then
        settle(a)
      end
      return a
    end
    -- Adds the credit that came since the last time. Returns the permits per window that the account is
    -- paced at, 0 if nobody is held back, the most credit it can have, in millionths, and the most
    -- while it books so many permits ahead (0: it does not).
    local function fill(a, booking)
      local e = b.heavy == 0 and share or min(a.weight * b.spare / b.heavy / 1000, share)
      local limit = floor(max(2, 0.15 * e, 1.5 * sqrt(e)) * 1000000)
      local capacity = limit + floor(max(booking - e, 0) * 1000000)
      if b.heavy == 0 and a.credit >= 0 then
        a.credit, a.filled = limit, now
        return 0, limit, capacity
      end
      pour(a, e, b.heavy == 0 and limit or capacity)
      return b.heavy == 0 and 0 or e, limit, capacity
    end
    -- [fair_record.lua]
    -- Fairness: how an account is written, and where.
    local function place(slot)
      return format('%d', 151 + slot * 225)
    end
    local function record(a)
      return format('#%s%7d%16d%16d%16d%20d%13d%13d%13d%16d%16d%16d%16d%10d%20d', a.id, a.weight, a.seen, a.claim, a.filled, a.credit, a.cell, a.used, a.used_before,
        a.unmet, a.unmet_before, a.due, a.denied, a.waited, a.lent)
    end
    local function save()
      for slot, a in pairs(b.accounts) do
        redis.call('SETRANGE', KEYS[#KEYS], place(slot), record(a))
      end
    end
    local a = account_of(ARGV[3], ARGV[4] + 0) or everybody()
    roll(a)
    local price = floor(refunded * 1000000 * min(((ARGV[5] or '0') + 0) * 2, window) / window)
    local unused = refunded - floor(price / 1000000)
    local recent = min(unused, a.used)
    a.used, a.used_before = a.used - recent, max(0, a.used_before - (unused - recent))
    local _, limit = fill(a, 0)
    a.credit = min(a.credit + (refunded * 1000000 - price), limit)
    save()
  end)
end
return {1, refunded, closed and 0 or free(), epoch, share}
