-- fixedwindow_ledger = packed_names + packed + fixedwindow + packed_load + ledger with fair_pace
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
-- [ledger.lua]
-- Ledger: who contends for the shard. Writes nothing, creates nothing.
--
-- KEYS   1 head, last ledger: of any algorithm
-- Reply status, contended (0, 1), now, window us, permits a window by which participants are paced,
--       ledger as it is stored
local contends = contended > 0 and contended + 2 * window > now
local ledger = contends and redis.pcall('GET', KEYS[#KEYS]) -- else it may be where it cannot be read: see fewer.lua
if ledger and type(ledger) ~= 'string' or ledger and sub(ledger, 1, 3) ~= 'SLB' then
  return {-1, #KEYS, ledger.err}
end
-- [fair_pace.lua]
-- Fairness: by what participants are paced. While a share rises to its target, permits leave the
-- window elsewhere as fast as if it were all here, and come here at once. So takes, bookings and
-- refunds reckon as if it were.
local goal = as_proposed and sub(ARGV[1], 21, 33) + 0 or target
if goal < share then
  goal = share
end
return {head and 1 or 0, contends and 1 or 0, now, window, goal, contends and ledger or ''}
