--@needs a available closed contended floor format goal max min now pay save share stay stored sub
--@needs window
--@sets contended remark
--@gives allow asking begun contending format granted grants groups headroom id ids known left now
--@gives paced refused save share stored sub unmet waiting weight window
-- Fairness, part 1: while participants contend, who gets which of the free permits. Made to be put
-- into the take of any algorithm.
--
-- KEYS, last  the ledger: see fair_ledger.lua
-- ARGV[3]  how many groups there are, and 1 if callers carry reports, else 0; the groups; the
--          callers, whose weights are in thousandths.
--          Only with reports: thousandths of a permit of unmet demand since the last report, and
--          permits that blocked callers wait for.
--@layout asks
--@layout group
--@layout caller
--
-- `contended` is 0 or when somebody was last refused; where it changes, that is written: `remark`.
-- Gives the number of `groups`, the `grants` of each, how many permits were `granted` in all and
-- are `left`, and the size of the first ask that was `refused`. Arithmetic in the order of
-- fairness.Ledger, to which it is equal bit for bit. A ledger that is damaged is thrown away: then
-- the call is served as if nobody contended.
local asks, groups = ARGV[3], 1
local ONE = '@ONE' -- one group of asks for a single permit, and no reports
local plain = sub(asks, @one.groups..size) == ONE
local callers_at, caller_bytes = @one.callers, @caller.unmet.at -- where in it the callers are, and how long they are
local reports = false
if not plain then
  groups, reports = sub(asks, @asks.groups) + 0, sub(asks, @asks.reports) == '1'
  callers_at, caller_bytes = @asks.rest + @group.bytes * groups, reports and @caller.bytes or @caller.unmet.at
end
local named = #asks >= callers_at
local grants, asking, headroom, allow, save = {0}, {0}, 0, nil, nil
local left, refused = available, nil
local contending = false
local marked = contended
local paced = share -- see fair_header.lua
local begun = false -- they begin to contend
if marked > 0 then
  if marked + 2 * window <= now then
    contended, remark = 0, true
  else
    contending = named and closed == 0
  end
end
if contending then
  local ids = {sub(asks, @caller.id[callers_at])}
  for i = callers_at + caller_bytes, #asks, caller_bytes do
    ids[#ids + 1] = sub(asks, @caller.id[i])
  end
  --@include fair_header
  paced = goal
  headroom = @HEADROOM_PART * paced >= 2 and @HEADROOM_PART * paced or 0
  -- Of names outside of it, those that it is handed cost least.
  contending, left, refused, allow, save = pcall(function(asks, ids, stored, now, window, share, left, sub, format,
    headroom)
    local refused
    --@include fair_ledger
    for n, id in ipairs(ids) do
      local i = callers_at + (n - 1) * caller_bytes
      local known, weight, unmet, waiting = stored[n + 1], sub(asks, @caller.weight[i]) + 0, 0, 0
      if reports then
        unmet, waiting = sub(asks, @caller.unmet[i]) + 0, sub(asks, @caller.waiting[i]) + 0
      end
      --@include fair_open
      asking[n] = a
    end
    -- How many of so many asks are granted out of left permits.
    local function allow(a, size, count, free)
      local fit = min(count, floor(free / size))
      if a.e == 0 or fit == 0 then
        return fit
      end
      local credit, slope = a.now / @MICRO, headroom / a.depth
      local allowed = floor(min(credit, floor((free - headroom + slope * (credit + 1)) / (1 + slope))) / size)
      if allowed < 1 and (a.now >= floor(a.depth * @MICRO) or a.heavy == 0 and a.now >= 0) then
        allowed = 1
      end
      return max(0, min(fit, allowed))
    end
    for i = 1, groups do
      local at = @asks.rest - @group.bytes + @group.bytes * i
      local size, count = sub(asks, @group.size[at]) + 0, sub(asks, @group.count[at]) + 0
      local a = asking[sub(asks, @group.caller[at]) + 1]
      local got = allow(a, size, count, left)
      grants[i], left = got, left - got * size
      if got < count then
        a.unserved = a.unserved + (count - got) * size
        if a.refused == 0 then
          a.refused = size
        end
        refused = refused or size
      end
      if got > 0 then
        pay(a, got * size)
      end
    end
    for _, a in ipairs(asking) do
      if a.unserved > 0 then
        stay(a)
      end
    end
    return left, refused, allow, save
  end, asks, ids, stored, now, window, paced, left, sub, format, headroom)
  if not contending then
    left, refused = available, nil
    redis.pcall('DEL', KEYS[#KEYS])
  end
end
if plain and not contending then
  local count = sub(asks, @one.count) + 0
  if left < count then
    count, refused = left, 1
  end
  left = left - count
elseif not contending then
  for group = @asks.rest, callers_at - 1, @group.bytes do
    local size, count = sub(asks, @group.size[group]) + 0, sub(asks, @group.count[group]) + 0
    local fit = (left - left % size) / size
    if fit < count then
      count = fit
      refused = refused or size
    end
    left = left - count * size
  end
end
-- When participants contend is noted at first, and then eight times a window.
if named and closed == 0 and (refused or reports) then
  begun = not contending
  if begun or now < marked or (now - marked) * 8 > window then
    remark, contended = true, now
  end
end
local granted = available - left
