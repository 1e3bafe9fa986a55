-- slidinglog_peek = slidinglog + slidinglog_cut + slidinglog_trim + slidinglog_peek with
--   slidinglog_rest, quarantine, slidinglog_crests, slidinglog_dates
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
-- [slidinglog_peek.lua]
-- Peek: what a take that asks for nothing would find. Writes nothing, creates nothing.
--
-- Reply status, epoch, target, share, start, used, window us, quarantine left us, reset us, number
-- of crests (0: nothing is booked ahead),
--       then of each crest in us (0: not ahead of the clock), permits, permits up to its end: see
--       slidinglog_crests.lua, then in us, permits of each release, oldest first: at most 32,
--       neighbours merged into the later one
if not head then
  return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
end
if damaged then
  return {-1, 2}
end
-- [quarantine.lua]
-- How much of the quarantine is left, us.
local closed = 0
if closed_until > now then
  closed = closed_until - now
end
if share > target and closed == 0 then
  local held = used > target and used or target
  if held < share then
    share = held
  end
end
local reply = {1, epoch, target, share, start, used, window, closed, 0, 0}
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
  for _, crest in ipairs(crests) do
    local last = #reply
    reply[last + 1], reply[last + 2], reply[last + 3] = crest[1] > now and crest[1] - now or 0, crest[2], crest[3]
  end
  reply[10] = #crests
end
if used > 0 then
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
  befores[#befores + 1] = before
  if total ~= before then
    dates[#dates + 1] = newest
    befores[#befores + 1] = total
  end
  local step, from = math.ceil(#dates / 32), base
  for i = step, #dates + step - 1, step do
    local last = i < #dates and i or #dates
    reply[#reply + 1] = dates[last] + window - now
    reply[#reply + 1] = (befores[last + 1] - from) % WRAP
    from = befores[last + 1]
  end
  reply[9] = (dates[#dates] or newest) + window - now
end
if reply[9] < closed then
  reply[9] = closed
end
return reply
