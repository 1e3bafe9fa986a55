-- slidinglog_reserve = slidinglog + fenced + slidinglog_adopt + slidinglog_trim + slidinglog_settle
--   + slidinglog_ahead + fair_charge + slidinglog_reserve + slidinglog_enter + slidinglog_reserved
--   + fair_charged with slidinglog_rest, adopt_late, slidinglog_foreign, adopt_lost, adopt_shut,
--   adopt_held, quarantine, slidinglog_dates, fair_header, fair_pace, fair_account, fair_ledger,
--   fair_counters, fair_record, fair_begin, slidinglog_available, slidinglog_crests,
--   slidinglog_leave, stepped, reply_layout
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
-- [fenced.lua]
-- Take and reserve: a call that comes later than its process may rely on the node being in. By then
-- others may have taken over what this shard has. Nothing is granted, adopted or written.
local fence = sub(ARGV[2], 73, 88)
if fence ~= '               0' and time[1] * 1000000 + time[2] > fence + 0 then
  return {4, 0, 0, 0, 0, time[1] * 1000000 + time[2], 0, 0, 0, 0, 0, 0, 0}
end
-- [slidinglog_adopt.lua]
-- Sliding log, take only, between load and trim: create the state, or adopt the caller's newer
-- epoch.
local proposed = as_proposed and epoch or sub(ARGV[1], 5, 20) + 0
local status = 1
local renew, rewrite = false, false -- write the whole head, with a new time to live or keeping it
local discard = false               -- the log is the remains of a lost state
local span = window
local entitled -- nil: the target
if not head then
  -- [adopt_late.lua]
  -- Take and reserve where there is no state: it would take the caller's word for its epoch and
  -- share, so only while that is confirmed. That holds without a share, too: a floor that is as old
  -- would raise it.
  local deadline = proposed > 0 and sub(ARGV[2], 44, 59) + 0 or 0
  if proposed == 0 or deadline < 0 or (deadline > 0 and now > deadline) then
    return {0, 0, 0, 0, 0, now, 0, 0, 0, 0, 0, 0, 0}
  end
  local left = 0 -- microseconds for which permits of a forgotten log may still be in use
  start, entries, opened, before = 0, 0, now, 0
  window = sub(ARGV[2], 2, 14) + 0
  discard = redis.call('TYPE', KEYS[2]).ok ~= 'none'
  if discard then
    -- [slidinglog_foreign.lua]
    -- Sliding log: there is something where the log belongs, is it a log?
    local member = redis.pcall('ZRANGE', KEYS[2], '0', '0')
    if member.err or #member[1] ~= 42 then
      return {-1, 2, member.err}
    end
  end
  local lasting = window
  if discard then
    left = window
  else
    -- [adopt_lost.lua]
    -- Take and reserve where there is no state: has the node forgotten what may still be in use? Sets
    -- `left`, the us for which it may be; `lasting` is how long what was granted last is.
    --
    -- A new limit and one whose records were lost with the node look the same. The shard opens at once.
    -- But where the node is so young that it may have forgotten something, and processes remind, the
    -- shard keeps when it was created, as if it had been shut until now: what was granted before that
    -- counts when it is told.
    --
    -- A server counts its start as a save. So it is up at least since it saved last, and to ask that
    -- costs next to nothing.
    if sub(ARGV[2], 1, 1) % 2 == 1 then
      left = lasting
    else
      local saved, known, listens = redis.pcall('LASTSAVE'), sub(ARGV[2], 15, 30) + 0, sub(ARGV[2], 1, 1) + 0 >= 4
      local up = type(saved) == 'number' and saved > 0 and time[1] - saved or 0 -- 0, or less: it never did
      if up * 1000000 < lasting and (listens or known > (up + 1) * 1000000) then
        local info = redis.pcall('INFO', 'server')
        local uptime = type(info) == 'string' and tonumber(string.match(info, 'uptime_in_seconds:(%d+)'))
        if uptime and uptime * 1000000 < lasting then
          if known > (uptime + 1) * 1000000 then
            left = lasting - uptime * 1000000
          elseif listens then
            closed_until = now
          end
        end
      end
    end
  end
  status = 2
  if left > 0 and sub(ARGV[2], 1, 1) + 0 >= 2 then
    -- [adopt_shut.lua]
    -- Take and reserve after a loss: if processes remind the shard of what it forgot, it stays shut
    -- only until they had the time to.
    if sub(ARGV[2], 1, 1) + 0 >= 4 then
      local listens = math.floor(window / 16)
      if listens > 30000000 then
        listens = 30000000
      end
      if left > listens then
        left = listens
      end
    end
    status = 3
    closed_until = now + left
  end
  epoch, target, span, renew = proposed, sub(ARGV[1], 21, 33) + 0, window, true
elseif epoch < proposed then
  if share > target then -- nobody has looked since it could fall to that
    entitled = target
  end
  epoch, target, start, renew = proposed, sub(ARGV[1], 21, 33) + 0, share, true
  window = sub(ARGV[2], 2, 14) + 0
  if window < span then
    span = window
  end
  -- [adopt_held.lua]
  -- Take and reserve that adopt a newer epoch: sets `entitled`, what the share falls to, if that is
  -- less than the target. What an old snapshot brought back, or a shard never gave up, beyond what
  -- the layout before left to the shard, is in force elsewhere now.
  local kept = sub(ARGV[2], 60, 72) + 0
  if kept >= 0 and kept < (entitled or target) then
    entitled = kept
  end
  if entitled and entitled >= target then
    entitled = nil
  end
end
-- What left the old window stays forgotten, what leaves the new one is forgotten now.
local cut = now - span
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
-- [slidinglog_settle.lua]
-- Sliding log, between trim and the grants: quarantine, and what the share comes to under the
-- proposal.
--
-- ARGV  1 how the head begins where nothing is left to settle, with the floor in place of the
--       share; of epoch 0, which creates nothing, its kind and 0
-- proposal  1 magic(4)  5 epoch(16)  21 target(13)  34 floor(13)  = 46 bytes
--       2 flags: 1 seen + 2 quarantine or 4 reminded; window us; known us: how long the limit is
--       known to have existed; burst; deadline us: the node's time until which a state may be
--       created with a share, 0: no end, -1: not at all; held: the most that a state of an older
--       epoch can hold, -1: anything; fence us: the node's time until which the call may do
--       anything, 0: no end; life: time to live of log and accounts ms; to the end, not padded:
--       time to live of the head ms
-- terms  1 flags(1)  2 window(13)  15 known(16)  31 burst(13)  44 deadline(16)  60 held(13)
--        73 fence(16)  89 edge(13)  102 life(13)  115 head_life(to the end)
if damaged then
  -- The log was evicted while its head stayed: what it held is forgotten, and may still be in use.
  base, before, entries, oldest, opened, newest, used = total, total, 0, 0, now, now, 0
  trimmed, discard, renew, status, closed_until = false, true, true, 2, 0
  if sub(ARGV[2], 1, 1) + 0 >= 2 then
    local left = window
    -- [adopt_shut.lua]
    -- Take and reserve after a loss: if processes remind the shard of what it forgot, it stays shut
    -- only until they had the time to.
    if sub(ARGV[2], 1, 1) + 0 >= 4 then
      local listens = math.floor(window / 16)
      if listens > 30000000 then
        listens = 30000000
      end
      if left > listens then
        left = listens
      end
    end
    status, closed_until = 3, now + left
  end
end
-- [quarantine.lua]
-- How much of the quarantine is left, us.
local closed = 0
if closed_until > now then
  closed = closed_until - now
end
-- Lowering: the share follows the log down to its target. In quarantine it neither falls, as the
-- log does not tell what is in use, nor rises, as the floor may be older than the loss. A shard
-- that is to be reminded of what it forgot begins with its floor all the same, as it soon opens.
-- But what the layout before did not leave to the shard is not its own: drivers count a shard in
-- quarantine with what that left it, and it must not come out with more.
local bottom = entitled or target
if share > bottom and (closed == 0 or entitled) and not as_proposed then
  local held = used
  if newest > now and used > bottom then
    -- What is booked ahead is in use only when it is due: the most that any window from now on
    -- holds.
    -- [slidinglog_dates.lua]
    -- Sliding log: dates of all closed entries that have not left the window, and the totals before
    -- them.
    local log = oldest > 0 and redis.pcall('ZRANGEBYSCORE', KEYS[2], format('(%d', cut), '+inf') or {}
    if log.err then
      return {-1, 2, log.err}
    end
    local dates, befores = {}, {}
    local sound = pcall(function()
      for i, member in ipairs(log) do
        dates[i], befores[i] = sub(member, 1, 16) + 0, sub(member, 17, 31) + 0
      end
    end)
    if not sound then
      return {-1, 2}
    end
    local count, first = #dates + 1, 1
    dates[count], befores[count], befores[count + 1] = newest, before, total
    held = 0
    for i = 1, count do
      while dates[first] <= dates[i] - window do
        first = first + 1
      end
      local sum = (befores[i + 1] - befores[first]) % WRAP
      if sum > held and (i == count or dates[i + 1] > now) then
        held = sum
      end
    end
  end
  if held < bottom then
    held = bottom
  end
  if held < share then
    share, rewrite = held, true
  end
end
if entitled then
  start = share
end
if epoch == proposed and share < target and not as_proposed
  and (closed == 0 or (status == 3 and sub(ARGV[2], 1, 1) + 0 >= 4)) then
  local floor = sub(ARGV[1], 34, 46) + 0
  if floor > target then
    floor = target
  end
  if share < floor then
    share, rewrite = floor, true
  end
end
local written = false -- the whole head was written
-- [slidinglog_ahead.lua]
-- Reserve, before anything else: permits booked ahead, `ahead`.
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
local ahead = 0
if newest > now then
  local member =
    oldest > 0 and redis.pcall('ZRANGEBYSCORE', KEYS[2], format('(%d', now), '+inf', 'LIMIT', '0', '1') or {}
  if member.err then
    return {-1, 2, member.err}
  end
  ahead = (total - (member[1] and sub(member[1], 17, 31) or before)) % WRAP
end
-- [fair_charge.lua]
-- Fairness, before a booking: while participants contend, what is booked is paid from credit like
-- what is taken, or it would be a way around one's part.
--
-- ARGV  3 permits; 7.. unless the caller is anonymous: id, slot or -1, weight in thousandths,
--       permits that blocked callers wait for
-- `ahead` permits are booked ahead. Gives `pay`, the us until the participant's credit can pay for
-- the `permits`; `hold`, the us until it should try again because too much is booked that is not
-- paid; and, if there is something to write, charge(granted, delay), to be called at the end.
local permits, pay, hold, charge = ARGV[3] + 0, 0, 0, nil
if contended > 0 and contended + 2 * window > now and closed == 0 and ARGV[10] then
  -- [fair_header.lua]
  -- Fairness: reads the header of the ledger, '' where there is none or one of another version, which
  -- is thrown away.
  local header = redis.pcall('GETRANGE', KEYS[#KEYS], '0', '150')
  if type(header) ~= 'string' or (header ~= '' and sub(header, 1, 3) ~= 'SLB') then
    return {-1, #KEYS, header.err}
  end
  if sub(header, 4, 4) ~= '5' then
    header = ''
  end
  local sound, us, later, finish = pcall(function()
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
    local id, weight, own, newcomer = ARGV[7], ARGV[9] + 0
    own = account_of(id, ARGV[8] + 0)
    local a = own or everybody()
    if not own and b.count <= 1024 then
      newcomer = fresh(id, weight)
      b.accounts[b.count], b.count = newcomer, b.count + 1
    end
    a.weight = weight
    roll(a)
    note_claim(a, ARGV[10] + 0, own and now - own.filled or window, permits)
    a.seen = now
    local e, limit, capacity = fill(a, permits)
    local want, pay_in, needed, hold_for =
      min(permits * 1000000, limit), 0, min((permits - max(0, share - ahead)) * 1000000, capacity), 0
    if e > 0 and a.credit < want then
      pay_in = max(0, math.ceil(min((want - a.credit) * window / (e * 1000000), 1e15)) - (now - a.filled))
    end
    if e > 0 and a.credit < needed then
      -- or it would try ever more often
      hold_for =
        max(math.ceil(min((needed - a.credit) * window / ((e + share) * 1000000), 1e15)),
          floor(window / 64))
    end
    return pay_in, hold_for, function(granted, delay)
      a.used = max(a.used, min(a.used + granted, 1e12))
      if newcomer then
        newcomer.used = granted
      end
      if delay > 0 then
        a.seen, a.denied = max(a.seen, now + delay), max(a.denied, now + delay)
        if newcomer then
          newcomer.seen, newcomer.denied = now + delay, now + delay
        end
      end
      if e > 0 and granted > 0 then
        local paid_to = max(a.filled, now + min(delay, 3 * window))
        local gain = floor(e * 1000000 * (paid_to - a.filled) / window)
        a.credit, a.filled = max(min(a.credit + gain, capacity) - granted * 1000000, -1e18), paid_to
      end
      if header == '' then
        local appointed = b.appointed
        -- [fair_begin.lua]
        -- Fairness: begins a ledger with the account of those who have none of their own.
        redis.call('SET', KEYS[#KEYS], format('SLB5%5d%16d%16d%11d%5d%16d%20d%11d%20d%11d%5d%11d', 1, appointed, 0, 0, -1, 0, 0, 0, 0, 0, 0, 0)
          .. record(b.accounts[0]),
          'PX', format('%d', sub(ARGV[2], 102, 114) + 0))
      end
      save()
      if b.count ~= b.stored then
        redis.call('SETRANGE', KEYS[#KEYS], '4', format('%5d', b.count))
      end
    end
  end)
  if sound then
    pay, hold, charge = us, later, finish
  else
    redis.pcall('DEL', KEYS[#KEYS])
  end
end
-- [slidinglog_reserve.lua]
-- Reserve: take permits, all or none, at the first instant at which there is room for them: now, or
-- behind everything that is booked. In quarantine nothing is: there is no telling what has room
-- yet.
--
-- ARGV  1, 2 the proposal, as slidinglog_settle.lua says  3 permits  4 longest delay us, -1: they
--       are charged
--       5 most permits that may be booked ahead  6 least delay us
--       7.. the caller, as fair_charge.lua says, which comes before
-- Reply as slidinglog_enter.lua makes it, with the date in place of now; then delay us, permits
-- booked ahead, and pay if it is why nothing was booked, else 0. Refused: retry is the delay there
-- would be.
local MOST = 512 -- closed entries with which nothing is booked any more
local paced = 0
-- [slidinglog_available.lua]
-- Sliding log, take and reserve: what can be granted now.
local available = 0
if closed == 0 and newest > now then
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
  available = room
elseif closed == 0 and used < share then
  available = share - used
end
local date, granted, refused = now, 0, nil
local most = (as_proposed or share < target) and share or target
if ARGV[4] == '-1' then -- what was used already counts, as far as it makes a difference
  granted = closed > 0 and 0 or permits
  if granted > share then
    granted = share
  end
  if granted > 9000000000000 - used then
    granted = used < 9000000000000 and 9000000000000 - used or 0
  end
elseif permits <= available and ARGV[6] == '0' and pay == 0 and hold == 0 then
  granted = permits
elseif permits > most then
  refused = permits
else
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
  -- [slidinglog_leave.lua]
  -- The time until `gone` permits have left: until the earliest closed entry leaves after which they
  -- have. Bisection over the ranks, expired entries included.
  local function leave(gone)
    local last = newest + window - now
    if oldest == 0 or gone > (before - base) % WRAP then
      return last
    end
    local low, high = 0, entries - 1
    while low < high do
      local middle = math.floor((low + high) / 2)
      local member = redis.call('ZRANGE', KEYS[2], middle + 1, middle + 1)[1]
      local freed = member and (sub(member, 17, 31) - base) % WRAP or 0
      if freed >= gone and freed <= used then
        high = middle
      else
        low = middle + 1
      end
    end
    local member = redis.call('ZRANGE', KEYS[2], low, low)[1]
    return member and sub(member, 1, 16) + window - now or last
  end
  date = now + ARGV[6]
  if date < newest then
    date = newest
  end
  if date < closed_until then
    date = closed_until
  end
  local gone = used + permits - most
  if gone > 0 and date < now + leave(gone) then
    date = now + leave(gone)
  end
  if date - now < pay or hold > 0 then
    paced = math.max(pay, hold)
    date, refused = now + paced, permits
  elseif closed == 0 and date - now <= ARGV[4] + 0 and ahead + permits <= ARGV[5] + 0 and entries < MOST then
    granted, ahead = permits, ahead + permits
  else
    refused = permits
  end
end
-- [slidinglog_enter.lua]
-- Sliding log, after the grants: write them down, foresee what comes back, reply.
-- `granted` and `date`: how many, and when they may be used, now or ahead; `refused`: the size of
-- the first ask refused, or nil.
--
-- Makes `reply`: status, start or 0, free before, granted, used, now, next us, retry us (-1 never),
-- reset us which a take or a reservation goes on with: quarantine left us, epoch, target, share
local merged = false -- the grant joined an entry
if granted > 0 or renew or rewrite then
  -- The first write is one that needs memory: where the server refuses it (full, read-only),
  -- nothing has been written.
  if trimmed then
    local done = redis.pcall('SETRANGE', KEYS[1], '0', 'SLG2')
    if type(done) == 'table' and done.err then
      return {-2, done.err}
    end
    rewrite = true
    if oldest == 0 then
      -- they go last, if the log has not expired: an empty one is no key, and a slot on its way
      -- takes no new key
      entries = 0
    else
      local removed = redis.pcall('ZREMRANGEBYSCORE', KEYS[2], '-inf', format('%d', cut))
      if type(removed) == 'table' then
        return {-1, 2, removed.err}
      end
      entries, trimmed = entries - removed, false
    end
  end
  local logged, added = false, nil -- the open entry was closed; what was added to the log
  if granted > 0 then
    if not entries then
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
    if date < newest then
      -- Others have booked ahead of it: it goes into the log where its date belongs, and the totals
      -- after it grow.
      local later = oldest > 0 and redis.pcall('ZRANGEBYSCORE', KEYS[2], format('(%d', date), '+inf') or {}
      if later.err then
        return {-1, 2, later.err}
      end
      local add, remove = {'ZADD', KEYS[2]}, {'ZREM', KEYS[2]}
      local place, from = later[1] and sub(later[1], 17, 31) + 0 or before, date
      local last =
        oldest > 0
          and redis.call('ZREVRANGEBYSCORE', KEYS[2], format('%d', date), format('(%d', cut), 'LIMIT', '0', '1')[1]
      local ended = last and sub(last, 1, 16) + 0
      -- No entry that holds much is prolonged: who has booked for the instant at which that is free
      -- again would have it in one window with what is granted now, and leave no room for anybody
      -- else.
      if last
        and (ended == date
          or (share > 128 and entries >= 32
            and (date - ended + sub(last, 32, 42)) * 128 < window
        and (place - sub(last, 17, 31)) % WRAP * 16 < share)) then
        place, from, merged = sub(last, 17, 31) + 0, ended - sub(last, 32, 42), true
      end
      if ended ~= date then
        add[3], add[4] = format('%d', date), format('%16d%15d%11d', date, place, date - from)
        if merged then
          remove[3] = last
        end
      end
      if oldest == 0 or oldest > date or (merged and oldest == ended) then
        oldest = date
      end
      for _, member in ipairs(later) do
        local dated = sub(member, 1, 16)
        add[#add + 1] = format('%d', dated + 0)
        add[#add + 1] =
          dated .. format('%15d', (sub(member, 17, 31) + granted) % WRAP)
            .. sub(member, 32, 42)
        remove[#remove + 1] = member
      end
      if #add > 2 then
        local done = redis.pcall(unpack(add))
        if type(done) == 'table' then
          return {-2, done.err}
        end
        added = add[4]
      end
      if #remove > 2 then
        redis.call(unpack(remove))
      end
      if not merged then
        entries, renew = entries + 1, true
      end
      before = (before + granted) % WRAP
    elseif date == newest
      or (share > 128 and (entries >= 32 or used * 16 < share)
        and (date - opened) * 128 < window and (date == now or newest > now)) then
      newest, merged = date, true
    else
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
      if total ~= before then
        added = format('%16d%15d%11d', newest, before, newest - opened)
        local done = redis.pcall('ZADD', KEYS[2], format('%d', newest), added)
        if type(done) == 'table' then
          if sub(done.err, 1, 9) == 'WRONGTYPE' then
            return {-1, 2}
          end
          -- Where the slot is on its way and there is no log, there can be none. Then the open
          -- entry is prolonged, and all of it is free later.
          merged = date == now and newest <= now and date - opened < 1e11 and find(done.err, 'non local key', 1, true)
          if not merged then
            return {-2, done.err}
          end
          newest, renew = date, true
        else
          logged = true
          if oldest == 0 then
            oldest = newest
          end
          entries = entries + 1
        end
      end
      if not merged then
        before, opened, newest, renew = total, date, date, true
      end
    end
    total, used = (total + granted) % WRAP, used + granted
    if newest > now then
      renew = true -- it must be there when the permits are due
    end
  end
  if trimmed then
    local removed = redis.pcall('ZREMRANGEBYSCORE', KEYS[2], '-inf', format('%d', cut))
    if type(removed) == 'table' and not find(removed.err, 'non local key', 1, true) then
      if added then
        redis.pcall('ZREM', KEYS[2], added)
      end
      return {-1, 2, removed.err}
    end
  end
  local ttl, life = renew and sub(ARGV[2], 115), renew and sub(ARGV[2], 102, 114) + 0
  if newest > now then
    local longer = math.ceil((newest - now) / 1000)
    booked, ttl, life =
      newest, format('%d', sub(ARGV[2], 115) + longer), sub(ARGV[2], 102, 114) + longer
  elseif booked > 0 or used > share then
    booked, rewrite = used > share and newest or 0, true
  end
  if logged then
    redis.call('PEXPIRE', KEYS[2], format('%d', life))
  end
  local done
  if merged and not (renew or rewrite or stepped) then
    done = redis.pcall('SETRANGE', KEYS[1], '186', format('%16d%15d', newest, total))
  else
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
    local layout = as_proposed and ARGV[1] or format(LAYOUT, epoch, target, share)
    local text =
      format(FORM, layout, start, window, closed_until, offset, now, entries, base, oldest, opened, before, newest,
        total, contended, booked)
    if renew then
      done = redis.pcall('SET', KEYS[1], text, 'PX', ttl)
    else
      done = redis.pcall('SETRANGE', KEYS[1], '0', text)
    end
    written = true
  end
  if done ~= 249 and done.err then -- SETRANGE tells the length
    return {-2, done.err}
  end
  wrote = true
  if discard then
    redis.call('DEL', KEYS[2])
  elseif renew and entries > 0 and not logged then
    redis.call('PEXPIRE', KEYS[2], format('%d', life))
  end
elseif stepped then
  -- [stepped.lua]
  -- The clock went back: what makes up for it is stored, under every algorithm in the same place.
  local done = redis.pcall('SETRANGE', KEYS[1], '88', format('%16d', offset))
  if type(done) == 'table' then
    return {-2, done.err}
  end
end

local next_us, retry, reset = 0, 0, 0
local ceiling = (as_proposed or share < target) and closed == 0 and share or target
local need = used + 1 - ceiling -- permits that must leave before one can be granted
if used > 0 then
  next_us = (oldest > 0 and oldest or newest) + window - now
  reset = newest + window - now
  if not merged and total == (before or tonumber(sub(head, 172, 186))) then
    -- Refunds emptied the open entry: the last closed one leaves last.
    local member = oldest > 0 and redis.call('ZREVRANGE', KEYS[2], '0', '0')[1]
    if member then
      reset = sub(member, 1, 16) + window - now
    end
  end
end
if newest > now then
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
  -- [slidinglog_leave.lua]
  -- The time until `gone` permits have left: until the earliest closed entry leaves after which they
  -- have. Bisection over the ranks, expired entries included.
  local function leave(gone)
    local last = newest + window - now
    if oldest == 0 or gone > (before - base) % WRAP then
      return last
    end
    local low, high = 0, entries - 1
    while low < high do
      local middle = math.floor((low + high) / 2)
      local member = redis.call('ZRANGE', KEYS[2], middle + 1, middle + 1)[1]
      local freed = member and (sub(member, 17, 31) - base) % WRAP or 0
      if freed >= gone and freed <= used then
        high = middle
      else
        low = middle + 1
      end
    end
    local member = redis.call('ZRANGE', KEYS[2], low, low)[1]
    return member and sub(member, 1, 16) + window - now or last
  end
  -- The time until permits can be granted.
  local function wait(n)
    local us = 0
    for _, crest in ipairs(crests) do
      if crest[1] - window < now + us and crest[2] + n > ceiling then
        us = math.max(us, leave(crest[3] + n - ceiling))
      end
    end
    return us
  end
  if refused then
    retry = refused > ceiling and -1 or wait(refused)
  end
  if closed == 0 and room == 0 then
    next_us = ceiling > 0 and wait(1) or reset
  end
  if granted > 0 and date > now then
    available = closed == 0 and room + granted or granted -- what is booked leaves room before it
  end
else
  if refused and refused > ceiling then
    retry = -1
  elseif refused and used + refused - ceiling == 1 then
    retry = next_us
  end
  if (need > 1 and used >= share) or (retry == 0 and refused and used + refused > ceiling) then
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
    -- [slidinglog_leave.lua]
    -- The time until `gone` permits have left: until the earliest closed entry leaves after which they
    -- have. Bisection over the ranks, expired entries included.
    local function leave(gone)
      local last = newest + window - now
      if oldest == 0 or gone > (before - base) % WRAP then
        return last
      end
      local low, high = 0, entries - 1
      while low < high do
        local middle = math.floor((low + high) / 2)
        local member = redis.call('ZRANGE', KEYS[2], middle + 1, middle + 1)[1]
        local freed = member and (sub(member, 17, 31) - base) % WRAP or 0
        if freed >= gone and freed <= used then
          high = middle
        else
          low = middle + 1
        end
      end
      local member = redis.call('ZRANGE', KEYS[2], low, low)[1]
      return member and sub(member, 1, 16) + window - now or last
    end
    if retry == 0 and refused and used + refused > ceiling then
      retry = leave(used + refused - ceiling)
    end
    if need > 1 and used >= share then
      next_us = need <= used and leave(need) or reset
    end
  end
end
if refused and retry >= 0 and retry < closed then
  retry = closed
end
if closed > 0 then
  next_us = closed
  if reset < closed then
    reset = closed
  end
end
local reply = {status, 0, available, granted, used, now, next_us, retry, reset}
-- [slidinglog_reserved.lua]
-- Reserve, after the permits were entered.
if granted > 0 then
  reply[6] = date
else
  if retry >= 0 then
    reply[8] = date - now
  end
  date = now
end
if as_proposed then
  epoch, target = sub(ARGV[1], 5, 20) + 0, sub(ARGV[1], 21, 33) + 0
end
-- [reply_layout.lua]
-- Take and reserve: the layout in force, for a caller that cannot know it. What is left of a
-- quarantine, or below zero what tells it from others, once it is over.
reply[10] = closed > 0 and closed or -closed_until
reply[11], reply[12], reply[13] = epoch, target, share
reply[14], reply[15], reply[16] = date - now, ahead, paced
-- [fair_charged.lua]
-- Fairness, the end of reservations: what fair_charge.lua has to write down. Where too much is
-- booked ahead and the participant could pay, it is refused until there may be room.
if charge then
  local late, delayed = reply[14] + reply[16], reply[8]
  if granted == 0 and late == 0 and delayed >= 0 and delayed <= ARGV[4] + 0 then
    local filled = math.floor(ARGV[5] * string.sub(ARGV[2], 2, 14) / math.max(share, 1))
    late = math.max(0, delayed - math.min(filled, 1e15))
  end
  pcall(charge, granted, late)
end
return reply
