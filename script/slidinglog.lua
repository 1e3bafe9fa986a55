--@gives FORM LAYOUT WRAP as_proposed base before closed_until contended entries epoch format head
--@gives newest now offset oldest opened queue share start stepped sub target time total window
-- Sliding log, part 1 of every operation: read the clock and the state.
--
-- KEYS[1]  head: a string
-- KEYS[2]  log: a ZSET of closed entries, by date
--
-- All times are integers in microseconds of the shard's clock, which is the node's TIME plus an
-- offset that makes up for steps back. An entry is a number of permits granted under one date, the
-- time of its newest grant; they are free again at date + window. Reservations wait in the queue
-- behind the head, in the order of their dates, and enter the log when they are due. A reservation
-- has room beside everything dated after its date - window. A take has room in every window that it
-- lies in, also in those that end with what waits (slidinglog_peak.lua). So no window is ever over
-- the share. What waits since the window was longer has no base: it may be more than a window
-- ahead, and where it is not, all that is used counts beside it. Totals
-- run modulo 1e15, so that what an entry holds is the difference of two neighbours and nothing is
-- ever summed. `touched` is when the whole head was last written: with it, what was forgotten then
-- cannot be in the window again after a step back. The newest entry is open: it lives in the head
-- until the next one opens. Numbers are padded with blanks: zeros would read as octal on miniredis.
--
-- What is stored: name(bytes) of each column, behind where it begins, counted from 1. An entry is a
-- member of the log: its date, the total before it, and how long it was open.
--@layout head
--@layout pending
--@layout entry
--
-- Status codes, first in every reply:  -2 the server refused the first write (its text follows;
--                                      nothing was written)
--   -1 a value under key number reply[2] is not ours, or reply[3] is what the server said of it
--   instead; nothing was written
--   -5 the same, after everything was written   0 absent   1 ok   2 fresh   3 lost
local sub, find, format = string.sub, string.find, string.format
local LAYOUT = '@head.magic..share.form' -- the head up to the share
local FORM = '%s@head.start..contended.form'
local CALM = '@head.closed_until..offset.zero' -- where there is nothing to tell
local WRAP = @WRAP
local time = @TIME
local now = time[1] * 1000000 + time[2]
local head = @STATE
local epoch, target, share, window, closed_until, offset = 0, 0, 0, 0, 0, 0
local touched
local base, oldest, newest, total, contended, queue = 0, 0, now, 0, 0, ''
local start, entries, opened, before -- nil: not read yet, see slidinglog_rest.lua
-- the head begins with what a take or a reservation proposes: then epoch and target need not be
-- read as numbers
local as_proposed = false
local stepped = false -- the clock went back: the new offset must be stored
if head then
  if #head < @head.bytes or (#head - @head.bytes) % @pending.bytes ~= 0 then -- or an error, which is a table
    return {-1, 1, head.err}
  end
  as_proposed = ARGV[1] and find(head, ARGV[1], 1, true) == 1 -- cheaper than to cut out what is compared
  if not as_proposed and sub(head, @head.magic) ~= '@head.magic.form' then
    return {-1, 1}
  end
  local sound
  sound, share, base, total, window, touched, oldest, newest, entries, opened =
    pcall(function(text, slice) -- what a function is given costs less than what it refers to
      local quota, from, upto = slice(text, @head.share) + 0, slice(text, @head.base) + 0, slice(text, @head.total) + 0
      if upto - from == quota then -- full: most likely nothing will be entered
        return quota, from, upto, slice(text, @head.window) + 0, slice(text, @head.touched) + 0,
          slice(text, @head.oldest) + 0, slice(text, @head.newest) + 0
      end
      return quota, from, upto, slice(text, @head.window) + 0, slice(text, @head.touched) + 0,
        slice(text, @head.oldest) + 0, slice(text, @head.newest) + 0,
        slice(text, @head.entries) + 0, slice(text, @head.opened) + 0
    end, head, sub)
  if sound
    and not (as_proposed and #head == @head.bytes
      and find(head, CALM, @head.closed_until.from, true) == @head.closed_until.from
      and find(head, '@head.contended.zero', @head.contended.from, true) == @head.contended.from) then
    sound, epoch, target, closed_until, offset, contended = pcall(function()
      return sub(head, @head.epoch) + 0, sub(head, @head.target) + 0, sub(head, @head.closed_until) + 0,
        sub(head, @head.offset) + 0, sub(head, @head.contended) + 0
    end)
    queue = sub(head, @head.bytes + 1)
    local last, whole = 0, true
    local read = pcall(function()
      for from = 1, #queue, @pending.bytes do
        local date, first, left = sub(queue, @pending.date[from]) + 0, sub(queue, @pending.opened[from]) + 0,
          sub(queue, @pending.base[from]) + 0
        local permits = sub(queue, @pending.permits[from]) + 0
        whole = whole and date > last and date < 1e16 and first <= date and permits >= 1 and permits < 1e13
          and left < WRAP and left >= -1
        last = date
      end
    end)
    sound = sound and read and whole
    --@include slidinglog_rest
  end
  -- Also false for NaN and infinity, which strtod accepts.
  if not (sound and (as_proposed or epoch >= 1) and window >= 1000 and newest < 1e16 and touched < 1e16
    and (total - base) % WRAP >= 0) then
    return {-1, 1}
  end
  now = now + offset
  local last = newest > touched and newest or touched
  if now < last then
    offset = offset + last - now
    now = last
    stepped = true
  end
end
