-- slidinglog_refund = slidinglog + slidinglog_cut + slidinglog_trim + slidinglog_refund with
--   slidinglog_rest, quarantine, stepped, fair_restore, fair_pace, fair_account, fair_ledger,
--   fair_counters, fair_record, slidinglog_crests
-- [slidinglog.lua]
-- Sliding log, part 1 of every operation: read the clock and the state.
--
-- KEYS[1]  head: a string
-- KEYS[2]  log: a ZSET of closed entries, by date
--
-- All times are integers in microseconds of the shard's clock, which is the node's TIME plus an
-- offset that makes up for steps back. An entry is a number of permits granted under one date, the
-- time of its newest grant; they are free again at date + window. Dates ahead of the clock are
-- reservations, in the order in which they were made: a reservation has room beside everything
-- dated after its date - window. A take has room in every window that it lies in, also in those
-- that end with what is ahead (slidinglog_crests.lua). So no window is ever over the share. Totals
-- run modulo 1e15, so that what an entry holds is the difference of two neighbours and nothing is
-- ever summed. `touched` is when the whole head was last written: with it, what was forgotten then
-- cannot be in the window again after a step back. The newest entry is open: it lives in the head
-- until the next one opens. Numbers are padded with blanks: zeros would read as octal on miniredis.
--
-- What is stored: name(bytes) of each column, behind where it begins, counted from 1. An entry is a
-- member of the log: its date, the total before it, and how long it was open.
-- head  1 SLG2  5 epoch(16)  21 target(13)  34 share(13)  47 start(13)  60 window(13)
--       73 closed_until(16)  89 offset(16)  105 touched(16)  121 entries(4)  125 base(15)
--       140 oldest(16)  156 opened(16)  172 before(15)  187 newest(16)  203 total(15)
--       218 contended(16)  234 booked(16)  = 249 bytes
-- entry  1 date(16)  17 before(15)  32 span(11)  = 42 bytes
-- The last two of the head are 0 as a rule. `booked` is the date of the newest entry if that was
-- ahead of the clock when the head was last written, or if the log held more than the share: by
-- what was charged, or was booked ahead under a shorter window.
--
-- Status codes, first in every reply:  -2 the server refused the first write (its text follows;
--                                      nothing was written)
--   -1 a value under key number reply[2] is not ours, or reply[3] is what the server said of it
--   instead; nothing was written
--   -5 the same, after everything was written   0 absent   1 ok   2 fresh   3 lost
local sub, find, format = string.sub, string.find, string.format
local LAYOUT = 'SLG2%16d%13d%13d' -- the head up to the share
local FORM = '%s%13d%13d%16d%16d%16d%4d%15d%16d%16d%15d%16d%15d%16d%16d'
-- closed_until and offset, or contended and booked, where there is nothing to tell
local CALM = '               0               0'
local WRAP = 1000000000000000
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local head = redis.pcall('GET', KEYS[1])
local epoch, target, share, window, closed_until, offset = 0, 0, 0, 0, 0, 0
local touched
local base, oldest, newest, total, contended, booked = 0, 0, now, 0, 0, 0
local start, entries, opened, before -- nil: not read yet, see slidinglog_rest.lua
-- the head begins with what a take or a reservation proposes: then epoch and target need not be
-- read as numbers
local as_proposed = false
local stepped = false -- the clock went back: the new offset must be stored
local wrote = false -- the operation has written what it is for
if head then
  if #head ~= 249 then -- or an error, which is a table
    return {-1, 1, head.err}
  end
  as_proposed = ARGV[1] and find(head, ARGV[1], 1, true) == 1 -- cheaper than to cut out what is compared
  if not as_proposed and sub(head, 1, 4) ~= 'SLG2' then
    return {-1, 1}
  end
  local sound
  sound, share, base, total, window, touched, oldest, newest, entries, opened =
    pcall(function(text, slice) -- what a function is given costs less than what it refers to
      local quota, from, upto = slice(text, 34, 46) + 0, slice(text, 125, 139) + 0, slice(text, 203, 217) + 0
      if upto - from == quota then -- full: most likely nothing will be entered
        return quota, from, upto, slice(text, 60, 72) + 0, slice(text, 105, 120) + 0,
          slice(text, 140, 155) + 0, slice(text, 187, 202) + 0
      end
      return quota, from, upto, slice(text, 60, 72) + 0, slice(text, 105, 120) + 0,
        slice(text, 140, 155) + 0, slice(text, 187, 202) + 0,
        slice(text, 121, 124) + 0, slice(text, 156, 171) + 0
    end, head, sub)
  if sound
    and not (as_proposed and find(head, CALM, 73, true) == 73
      and find(head, CALM, 218, true) == 218) then
    sound, epoch, target, closed_until, offset, contended, booked = pcall(function()
      return sub(head, 5, 20) + 0, sub(head, 21, 33) + 0, sub(head, 73, 88) + 0,
        sub(head, 89, 104) + 0, sub(head, 218, 233) + 0,
        sub(head, 234, 249) + 0
    end)
    -- [slidinglog_rest.lua]
    -- What of the head neither a merge nor a denial needs if all is as proposed: read where it is
    -- needed, before anything is written.
    if not start then
      start, before = tonumber(sub(head, 47, 59)), before or tonumber(sub(head, 172, 186))
      entries, opened = entries or tonumber(sub(head, 121, 124)), opened or tonumber(sub(head, 156, 171))
      if not (start and before and entries and opened and opened <= newest) then
        return {wrote and -5 or -1, 1}
      end
    end
  end
  -- Also false for NaN and infinity, which strtod accepts.
  if not (sound and (as_proposed or epoch >= 1) and window >= 1000 and newest < 1e16 and touched < 1e16 and
    (booked == newest or (booked == 0 and (total - base) % WRAP <= share))) then
    return {-1, 1}
  end
  now = now + offset
  -- A date ahead of the clock was booked there; else it tells that the clock went back.
  local last = booked == 0 and newest > touched and newest or touched
  if now < last then
    offset = offset + last - now
    now = last
    stepped = true
  end
end
-- [slidinglog_cut.lua]
-- Sliding log: what has left the window, for operations that adopt nothing.
local cut = now - window
-- [slidinglog_trim.lua]
-- Sliding log, part 2: forget, in memory only, the entries dated at or before `cut`. Exact at once
-- and O(log n): the oldest entry that stays tells the total before it. Sets base, before, oldest
-- (0: no closed entry is left), used, trimmed (the log still holds closed entries that have left)
-- and damaged (the log is not the one the head describes).
local trimmed, damaged = false, false
if oldest > 0 and oldest <= cut then
  -- [slidinglog_rest.lua]
  -- What of the head neither a merge nor a denial needs if all is as proposed: read where it is
  -- needed, before anything is written.
  if not start then
    start, before = tonumber(sub(head, 47, 59)), before or tonumber(sub(head, 172, 186))
    entries, opened = entries or tonumber(sub(head, 121, 124)), opened or tonumber(sub(head, 156, 171))
    if not (start and before and entries and opened and opened <= newest) then
      return {wrote and -5 or -1, 1}
    end
  end
  trimmed = true
  if newest <= cut then
    base, before, oldest = total, total, 0
  else
    local stays = redis.pcall('ZRANGEBYSCORE', KEYS[2], format('(%d', cut), '+inf', 'LIMIT', '0', '1')
    if stays.err then
      return {-1, 2, stays.err}
    end
    local member = stays[1]
    damaged = redis.call('ZCARD', KEYS[2]) ~= entries
    if not member then
      base, oldest = before, 0
    elseif #member == 42 and tonumber(sub(member, 1, 16)) and tonumber(sub(member, 17, 31)) then
      oldest, base = sub(member, 1, 16) + 0, sub(member, 17, 31) + 0
    else
      return {-1, 2}
    end
  end
elseif newest <= cut then
  -- The open entry is emptied, not only passed over: under a longer window it would seem to hold
  -- permits again.
  base, before = total, total
end
local used = (total - base) % WRAP
-- [slidinglog_refund.lua]
-- Refund: give back permits of the entry that holds the grant made at shard time `at`. Keeps every
-- date and the time to live.
--
-- ARGV  1 permits  2 at us
--       3, 4 of whom: see fair_restore.lua
-- Reply status, refunded, free, epoch, share
if not head then
  return {0, 0, 0, 0, 0}
end
if damaged then
  return {-1, 2}
end
local want, at = ARGV[1] + 0, ARGV[2] + 0
local refunded, later, emptied = 0, nil, false
if at < closed_until then -- from before a loss: what is in use of that others were granted, too
  want = 0
end
if at >= opened then
  if at <= newest then
    refunded = (total - before) % WRAP
    if refunded > want then
      refunded = want
    end
  end
elseif oldest > 0 then
  local least = at > cut and at or cut + 1
  later = redis.pcall('ZRANGEBYSCORE', KEYS[2], format('%d', least), '+inf')
  if later.err then
    return {-1, 2, later.err}
  end
  local sound = pcall(function()
    local holder = later[1]
    if holder and at >= sub(holder, 1, 16) - sub(holder, 32, 42) then
      local after = later[2] and sub(later[2], 17, 31) + 0 or before
      local held = (after - sub(holder, 17, 31)) % WRAP
      refunded = held < want and held or want
      emptied = refunded == held
    end
  end)
  if not sound then
    return {-1, 2}
  end
end

-- [quarantine.lua]
-- How much of the quarantine is left, us.
local closed = 0
if closed_until > now then
  closed = closed_until - now
end
local lowered = false
if share > target and closed == 0 then
  local held = used - refunded
  if held < target then
    held = target
  end
  if held < share then
    share, lowered = held, true
  end
end

if refunded > 0 or lowered then
  -- The first write is one that needs memory: where the server refuses it, nothing has been
  -- written.
  local done = redis.pcall('SETRANGE', KEYS[1], '0', 'SLG2')
  if type(done) == 'table' then
    return {-2, done.err}
  end
  if trimmed then
    local removed = redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', format('%d', cut))
    entries = newest > cut and entries - removed or 0 -- the log may have expired before the head
  end
  if refunded > 0 then
    used = used - refunded
    total = (total - refunded) % WRAP
  end
  if later and refunded > 0 then
    -- Later totals shrink. New members go in before the old ones leave: an empty ZSET would lose
    -- its time to live.
    before = (before - refunded) % WRAP
    local add, remove = {'ZADD', KEYS[2]}, {'ZREM', KEYS[2]}
    if emptied then
      remove[3] = later[1]
    end
    for i = 2, #later do
      local date = sub(later[i], 1, 16)
      add[#add + 1] = format('%d', date + 0)
      add[#add + 1] =
        date .. format('%15d', (sub(later[i], 17, 31) - refunded) % WRAP)
          .. sub(later[i], 32, 42)
      remove[#remove + 1] = later[i]
    end
    if #add > 2 then
      redis.call(unpack(add))
    end
    if #remove > 2 then
      redis.call(unpack(remove))
    end
    if emptied then
      entries = entries - 1
      if oldest == sub(later[1], 1, 16) + 0 then
        oldest = later[2] and sub(later[2], 1, 16) + 0 or 0
      end
    end
  end
  if newest > now and total == before then
    -- What was booked last is cancelled: the entry before it is the newest again.
    local last = oldest > 0 and redis.call('ZREVRANGE', KEYS[2], '0', '0')[1]
    if last then
      newest, before = sub(last, 1, 16) + 0, sub(last, 17, 31) + 0
      opened = newest - sub(last, 32, 42)
      redis.call('ZREM', KEYS[2], last)
      entries = entries - 1
      if oldest == newest then
        oldest = 0
      end
    else
      opened, newest = now, now
    end
  end
  booked = (newest > now or (booked > 0 and used > share)) and newest or 0
  redis.call('SETRANGE', KEYS[1], '0',
    format(FORM, format(LAYOUT, epoch, target, share), start, window, closed_until, offset, now, entries, base, oldest,
    opened, before, newest, total, contended, booked))
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
local free = 0
if closed == 0 and newest > now then
  -- Never an error from here on, as it is done: of a log that cannot be read, nothing is free.
  local function vacant()
    -- [slidinglog_crests.lua]
    -- What windows hold from now on where something is booked ahead: the one that ends now, and those
    -- that end with what is booked. Several bookings may share an entry: then it is what windows hold
    -- together that end with any of them. Sets crests, in order of time: the first instant at which it
    -- ends, permits in it, permits in the log up to its end; and room, how many more can be granted
    -- now: no more than the target leaves while the share is still above it. With too many entries
    -- ahead it is one crest that holds all.
    -- [slidinglog_rest.lua]
    -- What of the head neither a merge nor a denial needs if all is as proposed: read where it is
    -- needed, before anything is written.
    if not start then
      start, before = tonumber(sub(head, 47, 59)), before or tonumber(sub(head, 172, 186))
      entries, opened = entries or tonumber(sub(head, 121, 124)), opened or tonumber(sub(head, 156, 171))
      if not (start and before and entries and opened and opened <= newest) then
        return {wrote and -5 or -1, 1}
      end
    end
    local limit = (as_proposed or share < target) and share or target
    local crests, room = {{now, used, used}}, limit - used
    local coming =
      oldest > 0 and redis.pcall('ZRANGEBYSCORE', KEYS[2], format('(%d', now), '+inf', 'LIMIT', '0', '16') or {}
    if coming.err then
      return {wrote and -5 or -1, 2, coming.err}
    end
    if #coming < 16 then
      local sound = pcall(function()
        local starts, ends = {now}, {}
        for i, member in ipairs(coming) do
          starts[i + 1], ends[i] = sub(member, 1, 16) - sub(member, 32, 42), sub(member, 17, 31) + 0
        end
        starts[#coming + 2], ends[#coming + 1], ends[#coming + 2] = opened, before, total
        room = limit
        for i, begins in ipairs(starts) do
          local from = base
          if begins - window > cut then
            local member =
              redis.call('ZRANGEBYSCORE', KEYS[2], format('(%d', begins - window), '+inf', 'LIMIT', '0', '1')[1]
            from = member and sub(member, 17, 31) + 0 or before
          end
          local held = (ends[i] - from) % WRAP
          crests[i] = {begins, held, (ends[i] - base) % WRAP}
          if begins - window < now and limit - held < room then
            room = limit - held
          end
        end
      end)
      if not sound then
        return {wrote and -5 or -1, 2}
      end
    end
    if room < 0 then
      room = 0
    end
    return room
  end
  local room = vacant()
  free = type(room) == 'number' and room or 0
elseif closed == 0 and used < share then
  free = share - used
end
return {1, refunded, free, epoch, share}
