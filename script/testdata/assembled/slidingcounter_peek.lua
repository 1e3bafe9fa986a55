-- slidingcounter_peek = packed_names + packed + slidingcounter + packed_load + packed_peek with
--   quarantine, packed_least
-- [packed_names.lua]
-- One-string algorithms, before anything else: how the string begins, and whether the operation is
-- a take.
local MAGIC, TAKES = 'SCN1', false
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
-- [slidingcounter.lua]
-- Sliding counter: the permits of the window in at most 32 cells, each counted as if all of it had
-- been granted with its newest.
--
-- Its own columns: permits in use; when the newest cell opened (0: it is closed); what was granted
-- before `since` is forgotten; then the cells, oldest first, each with the date of its newest
-- grant. A cell takes grants for window / 16.
-- counter  150 used(13)  163 opened(16)  179 since(16)  195 cells(to the end)
-- cell  1 date(16)  17 permits(13)  30 next(to the end)
-- Cells dated ahead of now are booked; what is granted now goes before them, or into the first of
-- them if there is no room for another cell.
local used_now, opened, since, cells = 0, 0, 0, ''

local function parse(state)
  used_now, opened, since, cells =
    sub(state, 150, 162) + 0, sub(state, 163, 178) + 0, sub(state, 179, 194) + 0,
      sub(state, 195)
  return #cells % 29 == 0 and #cells <= 928 and used_now >= 0 and used_now < 1e13
    and opened < 1e16 and since < 1e16
end

local function text()
  return format('%13d%16d%16d', used_now, opened, since) .. cells
end

local function advance()
  local cut, from = now - window, 1
  while from < #cells and sub(cells, from, from + 15) + 0 <= cut do
    used_now = used_now - sub(cells, from + 16, from + 28)
    from = from + 29
  end
  if from > 1 then
    since = sub(cells, from - 29, from - 14) + 1
    cells = sub(cells, from)
  end
end

local function used()
  return used_now
end

local function free()
  return used_now < share and share - used_now or 0
end

-- Where the cells end that are not booked.
local function past()
  local last = #cells
  while last > 0 and sub(cells, last - 28, last - 13) + 0 > now do
    last = last - 29
  end
  return last
end

local function grant(n)
  used_now = used_now + n
  local last = past()
  local before, after = sub(cells, 1, last), sub(cells, last + 1)
  if last > 0
    and (#cells >= 928 or (now - opened) * 16 < window
      or sub(cells, last - 28, last - 13) + 0 == now) then
    before = sub(cells, 1, last - 29) .. format('%16d%13d', now, sub(cells, last - 12, last) + n)
  elseif #cells >= 928 then
    after =
      sub(after, 1, 16) .. format('%13d', sub(after, 17, 29) + n) .. sub(after, 30)
  else
    opened = now
    before = before .. format('%16d%13d', now, n)
  end
  cells = before .. after
end

local function reset()
  return cells ~= '' and sub(cells, #cells - 28, #cells - 13) + window - now or 0
end

local function retry(n)
  local most = share < target and share or target
  if n > most then
    return -1
  end
  local need = used_now + n - most
  if need <= 0 then
    return 0
  end
  for from = 1, #cells, 29 do
    need = need - sub(cells, from + 16, from + 28)
    if need <= 0 then
      return sub(cells, from, from + 15) + window - now
    end
  end
  return reset()
end

local function soonest()
  if cells == '' then
    return 0
  end
  local us = free() > 0 and sub(cells, 1, 16) + window - now or retry(1)
  return us < 0 and reset() or us
end

if not as_proposed then
  function falls()
    return sub(cells, 1, 16) + window - now
  end

  function begin()
    used_now, opened, since, cells = 0, 0, now, ''
  end

  function regrid()
    advance()
  end

  function retire()
  end

  function reshape()
  end

  function lasts()
    return window
  end

  function held()
    return used_now
  end
end

if not TAKES then
  function booked()
    local sum = 0
    for from = past() + 1, #cells, 29 do
      sum = sum + sub(cells, from + 16, from + 28)
    end
    return sum
  end

  -- How many of n permits make a difference: with the share, nothing is free for a window.
  function overdraw(n)
    local most = share < 9000000000000 - used_now and share or 9000000000000 - used_now
    return n < most and n or most > 0 and most or 0, 0
  end

  function refund(n, at)
    if at < since then
      return 0
    end
    for from = 1, #cells, 29 do
      if sub(cells, from, from + 15) + 0 >= at then
        local permits = sub(cells, from + 16, from + 28) + 0
        if n > permits then
          n = permits
        end
        local rest = sub(cells, from + 29)
        if n < permits then
          rest = sub(cells, from, from + 15) .. format('%13d', permits - n) .. rest
        elseif rest == '' then
          opened = 0
        end
        cells = sub(cells, 1, from - 1) .. rest
        used_now = used_now - n
        return n
      end
    end
    return 0
  end

  function earliest(n, after)
    if after == 0 and n <= free() then
      return 0, true
    end
    local us = retry(n)
    if us < 0 then
      return us, false
    end
    local newest = cells ~= '' and sub(cells, #cells - 28, #cells - 13) - now or 0
    return math.max(us, after, newest), #cells < 696
  end

  -- Bookings closer than the resolution share a cell, dated like the later one.
  function book(n, us)
    local size, date = #cells, now + us
    if us == 0 then
      grant(n)
    else
      used_now = used_now + n
      local newest = size > 0 and sub(cells, size - 28, size - 13) + 0 or 0
      if newest > now and (date - newest) * 16 < window then
        cells = sub(cells, 1, size - 29) .. format('%16d%13d', date, sub(cells, size - 12, size) + n)
      else
        cells = cells .. format('%16d%13d', date, n)
      end
    end
    return date
  end

  function remind(dated, permits)
    local room, entered = 1000000000000 - used_now, 0
    for k = #dated, 1, -1 do
      local date, n = dated[k], permits[k] < room and permits[k] or room
      if n > 0 then
        room, entered = room - n, entered + n
        local from, full = 1, #cells >= 928
        while from < #cells and sub(cells, from, from + 15) + 0 < date do
          from = from + 29
        end
        if from < #cells and (full or (sub(cells, from, from + 15) - date) * 32 <= window) then
          cells = sub(cells, 1, from - 1) .. sub(cells, from, from + 15)
            .. format('%13d', sub(cells, from + 16, from + 28) + n) .. sub(cells, from + 29)
        elseif full then
          cells = sub(cells, 1, from - 1 - 29)
            .. format('%16d%13d', date, sub(cells, from - 13, from - 1) + n)
        else
          cells = sub(cells, 1, from - 1) .. format('%16d%13d', date, n) .. sub(cells, from)
        end
      end
    end
    if entered > 0 then
      used_now, opened = used_now + entered, 0
      if share < used_now then
        share = used_now
        if start < share then
          start = share
        end
      end
    end
    return entered, entered > 0
  end

  function releases(reply)
    for from = 1, #cells, 29 do
      reply[#reply + 1] = sub(cells, from, from + 15) + window - now
      reply[#reply + 1] = sub(cells, from + 16, from + 28) + 0
    end
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
