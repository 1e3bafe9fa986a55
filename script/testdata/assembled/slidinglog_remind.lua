-- slidinglog_remind = slidinglog + slidinglog_cut + slidinglog_trim + slidinglog_remind with
--   slidinglog_rest, remind, stepped
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
-- [slidinglog_remind.lua]
-- Remind: enter what the shard forgot, each grant in an entry that is dated when the grant was, or
-- up to window/32 later. A share is never less than what is in use: what was so before
-- the loss has to leave the window before others may have it.
if not head then
  return {0, 0, 0}
end
if damaged then
  return {-1, 2}
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
local entered, log = 0, {}
local dates, opens, counts = {}, {}, {}
if #dated > 0 then
  log = oldest > 0 and redis.pcall('ZRANGEBYSCORE', KEYS[2], format('(%d', cut), '+inf') or log
  if log.err then
    return {-1, 2, log.err}
  end
  local sound = pcall(function()
    for i, member in ipairs(log) do
      local after = log[i + 1] and sub(log[i + 1], 17, 31) or before
      dates[i] = sub(member, 1, 16) + 0
      opens[i], counts[i] = dates[i] - sub(member, 32, 42), (after - sub(member, 17, 31)) % WRAP
    end
  end)
  if not sound then
    return {-1, 2}
  end
  if total ~= before then
    dates[#dates + 1], opens[#dates + 1], counts[#dates + 1] = newest, opened, (total - before) % WRAP
  end
  local near = math.floor(window / 32)
  local room = 1000000000000 - used
  for k = #dated, 1, -1 do
    local date, n = dated[k], permits[k] < room and permits[k] or room
    if n > 0 then
      room, entered = room - n, entered + n
      local i = 1
      while dates[i] and dates[i] < date do
        i = i + 1
      end
      if dates[i] and dates[i] - date <= near then
        counts[i] = counts[i] + n
        if opens[i] > date then
          opens[i] = date
        end
      elseif i > 1 and date - opens[i - 1] <= near then
        dates[i - 1], counts[i - 1] = date, counts[i - 1] + n
      elseif #dates < 512 then
        table.insert(dates, i, date)
        table.insert(opens, i, date)
        table.insert(counts, i, n)
      elseif dates[i] then
        counts[i] = counts[i] + n
      else
        dates[i - 1], opens[i - 1], counts[i - 1] = date, date, counts[i - 1] + n
      end
    end
  end
end
if entered > 0 then
  -- The first write is one that needs memory: where the server refuses it, nothing has been
  -- written.
  local done = redis.pcall('SETRANGE', KEYS[1], '0', 'SLG2')
  if type(done) == 'table' then
    return {-2, done.err}
  end
  if share < used + entered then
    share = used + entered
    if start < share then
      start = share
    end
  end
  local add, remove, stays, sum = {'ZADD', KEYS[2]}, {'ZREM', KEYS[2]}, {}, base
  entries = #dates - 1
  for i = 1, entries do
    local member = format('%16d%15d%11d', dates[i], sum, dates[i] - opens[i])
    add[#add + 1], add[#add + 2], stays[member] = format('%d', dates[i]), member, true
    sum = (sum + counts[i]) % WRAP
  end
  for _, member in ipairs(log) do
    if not stays[member] then
      remove[#remove + 1] = member
    end
  end
  -- New members go in before the old ones leave: an empty ZSET would lose its time to live.
  if #add > 2 then
    done = redis.pcall(unpack(add))
    if type(done) == 'table' then
      return {-2, done.err}
    end
  end
  if #remove > 2 then
    redis.call(unpack(remove))
  end
  if trimmed then
    redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', format('%d', cut))
  end
  before, opened, newest = sum, opens[#dates], dates[#dates]
  oldest, total, booked = entries > 0 and dates[1] or 0, (sum + counts[#dates]) % WRAP, newest > now and newest or 0
  local life = math.ceil((2 * window + (newest > now and newest - now or 0)) / 1000) + 60000
  if entries > 0 then
    redis.call('PEXPIRE', KEYS[2], format('%d', life))
  end
  local left = redis.pcall('PTTL', KEYS[1])
  if type(left) == 'number' and left > life then
    life = left
  end
  redis.call('SET', KEYS[1],
    format(FORM, format(LAYOUT, epoch, target, share), start, window, closed_until, offset, now, entries, base, oldest,
    opened, before, newest, total, contended, booked), 'PX', format('%d', life))
elseif stepped then
  -- [stepped.lua]
  -- The clock went back: what makes up for it is stored, under every algorithm in the same place.
  local done = redis.pcall('SETRANGE', KEYS[1], '88', format('%16d', offset))
  if type(done) == 'table' then
    return {-2, done.err}
  end
end
return {1, closed_until, entered}
