--@needs closed contended draw format free lend now pour roll settle share state sub wait window
--@sets contended
--@gives begun book cell contending counts floor granted groups here left max min refused remark
--@gives weights
-- Fairness, part 1: while participants contend, who gets which of the free permits. Made to be put into the take of any algorithm.
--
-- KEYS, last  book: a header and one record for each account, fixed-width, 1-based, see fairness/text.go:
--   header  1 magic(4)  5 accounts(5)  10 promised(16)  26 spare(16)  42 heavy(11)  53 next(5)  58 began(16)  74 light(20)  94 heavy(11)
--           105 claims(20)  125 weight(11)  136 count(5)  141 weights(11)
--   record  1 #  2 id(16)  18 weight(7)  25 seen(16)  41 claim(16)  57 filled(16)  73 credit(20)  93 cell(13)  106 used(13)
--           119 used before(13)  132 turned(16)  148 turned before(16)  164 due(16)  180 denied(16)  196 waited(10)  206 saved(20)
-- ARGV[3]  groups(3), 1 if seats carry reports(1), then size(13), count(13), seat(3) of each group; then of each seat: id(16), slot or -1(5),
--          weight in thousandths(7) [, turned away since the last report in thousandths of a permit(16), permits that blocked callers wait for(16)]
--
-- Reads free, share, window, now, closed, booked_ahead (whether permits are) and contended, which is 0 or when somebody was last refused; the head must hold that in 16 bytes from offset MARK on.
-- Sets groups (their number), contending, counts (grants of each group), left, refused, granted, contended, and what part 2 writes down. Arithmetic in the order of fairness.Book, to which it is equal bit for bit. A book that is damaged is thrown
-- away: then the call is served as if nobody contended.
local asks, groups = ARGV[3], 1
local ONE = '  10            1' -- one group of asks for a single permit, and no reports
local plain = sub(asks, 1, 17) == ONE
local first, seat = 34, 28 -- where in it the seats are, and how long they are
local reports = false
if not plain then
  groups, reports = sub(asks, 1, 3) + 0, sub(asks, 4, 4) == '1'
  first, seat = 5 + 29 * groups, reports and 60 or 28
end
local seated = #asks >= first
local counts, book = nil, nil
local left, refused = free, nil
local contending = false
local marked = contended
local begun, remark = false, false -- they begin to contend; contended must be written
if marked > 0 then
  if marked + 2 * window <= now then
    contended, remark = 0, true
  else
    contending = seated and closed == 0
  end
end
if contending then
  local header = redis.pcall('GETRANGE', KEYS[#KEYS], '0', '150')
  if type(header) ~= 'string' or (header ~= '' and sub(header, 1, 3) ~= 'SLB') then
    return {-1, #KEYS, header.err}
  end
  if sub(header, 4, 4) ~= '5' then -- of another version: thrown away
    header = ''
  end
  contending, book = pcall(function()
    local floor, max, min, sqrt = math.floor, math.max, math.min, math.sqrt
    local HEADER, RECORD, MOST = 151, 225, 1024
    local b = {header = header, accounts = {}, entries = {}, count = 1, promised = 0, spare = 0, heavy = 0, grants = {}}
    if header ~= '' then
      b.count, b.promised, b.spare, b.heavy = sub(header, 5, 9) + 0, sub(header, 10, 25) + 0, sub(header, 26, 41) + 0, sub(header, 42, 52) + 0
    end
    local weights = header ~= '' and sub(header, 141, 151) + 0 or 0
    b.stored, b.weights = b.count, weights
    local placed = {}
    local cell, here = (now - now % window) / window, window - now % window

    local function fresh(id, weight)
      return {id = id, weight = weight, seen = now, claim = 0, filled = now, credit = 0, cell = 0, used = 0, used_before = 0, turned = 0, turned_before = 0, due = 0, denied = 0, waited = 0, saved = 0}
    end
    local function parse(text)
      return {
        id = sub(text, 2, 17), weight = sub(text, 18, 24) + 0, seen = sub(text, 25, 40) + 0, claim = sub(text, 41, 56) + 0,
        filled = sub(text, 57, 72) + 0, credit = sub(text, 73, 92) + 0, cell = sub(text, 93, 105) + 0,
        used = sub(text, 106, 118) + 0, used_before = sub(text, 119, 131) + 0, turned = sub(text, 132, 147) + 0,
        turned_before = sub(text, 148, 163) + 0, due = sub(text, 164, 179) + 0,
        denied = sub(text, 180, 195) + 0, waited = sub(text, 196, 205) + 0, saved = sub(text, 206, 225) + 0,
      }
    end
    --@include fair_counters
    b.draw, b.lend = draw, lend
    -- The account of those who have none of their own.
    local function everybody()
      if not b.accounts[0] then
        b.accounts[0] = header == '' and fresh('****************', 1000)
          or parse(redis.call('GETRANGE', KEYS[#KEYS], format('%d', HEADER), format('%d', HEADER + RECORD - 1)))
      end
      return b.accounts[0]
    end
    -- The slot of a participant's own account, or -1.
    local function find(id, slot)
      if placed[id] then
        return placed[id]
      end
      if slot > 0 and slot < b.stored then
        local at = HEADER + slot * RECORD
        local text = redis.call('GETRANGE', KEYS[#KEYS], format('%d', at), format('%d', at + RECORD - 1))
        if sub(text, 1, 17) == '#' .. id then
          b.accounts[slot] = parse(text)
          return slot
        end
      end
      if b.stored > 1 then
        b.all = b.all or redis.call('GETRANGE', KEYS[#KEYS], '0', format('%d', HEADER + b.stored * RECORD - 1)) -- once for all seats
        local at = string.find(b.all, '#' .. id, HEADER + RECORD + 1, true)
        if at then
          slot = (at - 1 - HEADER) / RECORD
          b.accounts[slot] = parse(sub(b.all, at, at + RECORD - 1))
          return slot
        end
      end
      return -1
    end

    for i = first, #asks, seat do
      local id, weight = sub(asks, i, i + 15), sub(asks, i + 21, i + 27) + 0
      local own = find(id, sub(asks, i + 16, i + 20) + 0)
      local a, newcomer, span = nil, nil, window
      if own < 0 then
        if b.count <= MOST then
          own, b.count = b.count, b.count + 1
          newcomer = fresh(id, weight)
          b.accounts[own] = newcomer
        end
        a = everybody()
      else
        a = b.accounts[own]
        span = max(now - a.filled, 1) -- since its last ask, as nearly as it matters here
        if a.cell == 0 then
          local s = everybody()
          settle(a, s)
          s.seen = now
        end
      end
      local away = span
      placed[id] = own >= 0 and own or nil
      a.weight = weight
      roll(a)
      local entry = {own = own, a = a, newcomer = newcomer, e = 0, refused = 0, unserved = 0}
      local waiting = 0
      if reports then
        -- What was turned away since it was last seen counts in each window what is its part of that time; of a longer time than a window only the last.
        local turned = sub(asks, i + 28, i + 43) + 0
        if span > window then
          turned, span = floor(turned * window / span), window
        end
        local recent = floor(turned * min(now % window, span) / span)
        a.turned, a.turned_before = min(a.turned + recent, 1e15), min(a.turned_before + turned - recent, 1e15)
        waiting = sub(asks, i + 44, i + 59) + 0
        if newcomer then
          newcomer.turned, newcomer.turned_before = recent, turned - recent
        end
      end
      if own >= 0 and not newcomer then
        wait(a, waiting, span)
      end
      state(a, waiting, away, 0)
      a.seen = now
      if b.heavy > 0 or a.credit < 0 then
        local e = share
        if b.heavy > 0 then
          e = min(weight * b.spare / b.heavy / 1000, share)
          entry.e = e
        end
        entry.depth = max(2, 0.15 * e, 1.5 * sqrt(e))
        entry.full = floor(entry.depth * 1000000)
        pour(a, e, entry.full)
      else
        a.credit, a.filled = floor(max(2, 0.15 * share, 1.5 * sqrt(share)) * 1000000), now
      end
      b.entries[#b.entries + 1] = entry
    end

    b.reserve = (0.008 * share >= 1 or b.spare < share * 1000) and max(1, 0.008 * share) or 0
    b.left = free
    for i = 1, groups do
      local at = 29 * i - 24
      local size, count = sub(asks, at, at + 12) + 0, sub(asks, at + 13, at + 25) + 0
      local entry = b.entries[sub(asks, at + 26, at + 28) + 1]
      local a = entry.a
      local got = min(count, floor(b.left / size))
      if entry.e > 0 and got > 0 then
        local credit, slope = a.credit / 1000000, b.reserve / entry.depth
        local keep = floor((b.left - b.reserve + slope * (credit + 1)) / (1 + slope))
        local allowed = floor(min(credit, keep) / size)
        if allowed < 1 and a.credit >= entry.full then
          allowed = 1
        end
        got = max(0, min(got, allowed))
      end
      b.grants[i] = got
      b.left = b.left - got * size
      if got < count then
        entry.unserved = entry.unserved + (count - got) * size
        if entry.refused == 0 then
          entry.refused = size
        end
        b.refused = b.refused or size
        a.denied = now
        if entry.newcomer then
          entry.newcomer.denied = now
        end
      end
      a.used = a.used + got * size
      if entry.newcomer then
        entry.newcomer.used = entry.newcomer.used + got * size
      end
      if entry.e > 0 then
        a.credit = a.credit - got * size * 1000000
      end
    end
    return b
  end)
  if contending then
    counts, left, refused = book.grants, book.left, book.refused
  else
    redis.pcall('DEL', KEYS[#KEYS])
  end
end
if plain and not contending then
  local count = sub(asks, 18, 30) + 0
  if left < count then
    count, refused = left, 1
  end
  left = left - count
elseif not contending then
  for at = 5, first - 1, 29 do
    local size, count = sub(asks, at, at + 12) + 0, sub(asks, at + 13, at + 25) + 0
    local fit = (left - left % size) / size
    if fit < count then
      count = fit
      refused = refused or size
    end
    left = left - count * size
  end
end
-- When participants contend is noted at first, and then eight times a window.
if seated and closed == 0 and (refused or reports) then
  begun = not contending
  if begun or now < marked or (now - marked) * 8 > window then
    remark, contended = true, now
  end
end
local granted = free - left
