-- slidinglog_clear = slidinglog + away + slidinglog_clear with slidinglog_rest, slidinglog_logged,
--   slidinglog_foreign
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
-- [away.lua]
-- Whether a server said that a key is not there although only its slot is on its way: then it is
-- not known whether there is one.
local function away(reply)
  return string.find(reply.err, 'non local key', 1, true)
end
-- [slidinglog_clear.lua]
-- Clear: forget usage and lift a quarantine; epoch, share, window and the time to live stay.
-- Creates nothing.
--
-- Reply status, epoch, share
if not head then
  return {0, 0, 0}
end
-- [slidinglog_logged.lua]
-- Sliding log, clear and drop: `logged`, whether there is a log that is known to be one.
local kind = redis.pcall('TYPE', KEYS[2])
if kind.err and not away(kind) then
  return {-1, 2, kind.err}
end
local logged = kind.ok and kind.ok ~= 'none'
if logged then
  -- [slidinglog_foreign.lua]
  -- Sliding log: there is something where the log belongs, is it a log?
  local member = redis.pcall('ZRANGE', KEYS[2], '0', '0')
  if member.err or #member[1] ~= 42 then
    return {-1, 2, member.err}
  end
end
if share > target then
  share = target
end
local done = redis.pcall('SETRANGE', KEYS[1], '0',
  format(FORM, format(LAYOUT, epoch, target, share), start, window, 0, offset, now, 0, total, 0, now, total, now, total,
  0, 0))
if type(done) == 'table' then
  return {-2, done.err}
end
if logged then
  redis.call('DEL', KEYS[2])
end
return {1, epoch, share}
