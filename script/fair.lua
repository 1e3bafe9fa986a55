--@needs available b closed contended draw everybody floor fresh goal lend max min note_claim
--@needs note_waiting now placed pour roll settle share slot_of sqrt sub window
--@sets contended
--@gives begun contending granted grants groups ledger left paced refused remark share
-- Fairness, part 1: while participants contend, who gets which of the free permits. Made to be put
-- into the take of any algorithm.
--
-- KEYS, last  ledger: a header and one record for each account. Of each column: name(bytes), behind
--             where it begins, counted from 1. What the numbers mean says fairness/account.go;
--             next to count are of the sweep.
--@layout ledger
--@layout account
-- ARGV[3]  how many groups there are, and 1 if callers carry reports, else 0; the groups; the
--          callers, of which the slot is -1 where it is not known. Weights are in thousandths.
--          Only with reports: thousandths of a permit of unmet demand since the last report, and
--          permits that blocked callers wait for.
--@layout asks
--@layout group
--@layout caller
--
-- `contended` is 0 or when somebody was last refused; the head must hold it from offset MARK on.
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
local grants, ledger
local left, refused = available, nil
local contending = false
local marked = contended
local paced = share -- see fair_pace.lua
local begun, remark = false, false -- they begin to contend; contended must be written
if marked > 0 then
  if marked + 2 * window <= now then
    contended, remark = 0, true
  else
    contending = named and closed == 0
  end
end
if contending then
  --@include fair_header
  --@include fair_pace
  paced = goal
  contending, ledger = pcall(function()
    local share = paced
    --@include fair_ledger
    b.draw, b.lend = draw, lend
    for i = callers_at, #asks, caller_bytes do
      local id, weight = sub(asks, @caller.id[i]), sub(asks, @caller.weight[i]) + 0
      local own = slot_of(id, sub(asks, @caller.slot[i]) + 0)
      local elapsed = window
      local a, newcomer
      if own < 0 then
        if b.count <= @MAX_ACCOUNTS then
          own, b.count = b.count, b.count + 1
          newcomer = fresh(id, weight)
          b.accounts[own] = newcomer
        end
        a = everybody()
      else
        a = b.accounts[own]
        elapsed = max(now - a.filled, 1) -- since its last ask, as nearly as it matters here
        if a.cell == 0 then
          settle(a)
        end
      end
      local away = elapsed
      placed[id] = own >= 0 and own or nil
      a.weight = weight
      roll(a)
      local entry = {own = own, a = a, newcomer = newcomer, e = 0, refused = 0, unserved = 0}
      local waiting = 0
      if reports then
        -- What was not met since it was last seen counts in each window what is its part of
        -- that time; of a longer time than a window only the last.
        local unmet = sub(asks, @caller.unmet[i]) + 0
        if elapsed > window then
          unmet, elapsed = floor(unmet * window / elapsed), window
        end
        local recent = floor(unmet * min(now % window, elapsed) / elapsed)
        a.unmet, a.unmet_before =
          min(a.unmet + recent, @MOST_REPORTED), min(a.unmet_before + unmet - recent, @MOST_REPORTED)
        waiting = sub(asks, @caller.waiting[i]) + 0
        if newcomer then
          newcomer.unmet, newcomer.unmet_before = recent, unmet - recent
        end
      end
      if own >= 0 and not newcomer then
        note_waiting(a, waiting, elapsed)
      end
      note_claim(a, waiting, away, 0)
      a.seen = now
      if b.heavy > 0 or a.credit < 0 then
        local e = share
        if b.heavy > 0 then
          e = min(weight * b.spare / b.heavy / @MILLI, share)
          entry.e = e
        end
        entry.depth = max(@DEPTH_LEAST, @DEPTH_PART * e, @DEPTH_ROOT * sqrt(e))
        entry.full = floor(entry.depth * @MICRO)
        pour(a, e, entry.full)
      else
        a.credit, a.filled = floor(max(@DEPTH_LEAST, @DEPTH_PART * share, @DEPTH_ROOT * sqrt(share)) * @MICRO), now
      end
      b.entries[#b.entries + 1] = entry
    end

    b.headroom = (@HEADROOM_PART * share >= 1 or b.spare < share * @MILLI) and max(1, @HEADROOM_PART * share) or 0
    b.left = available
    for i = 1, groups do
      local at = @asks.rest - @group.bytes + @group.bytes * i
      local size, count = sub(asks, @group.size[at]) + 0, sub(asks, @group.count[at]) + 0
      local entry = b.entries[sub(asks, @group.caller[at]) + 1]
      local a = entry.a
      local got = min(count, floor(b.left / size))
      if entry.e > 0 and got > 0 then
        local credit, slope = a.credit / @MICRO, b.headroom / entry.depth
        local keep = floor((b.left - b.headroom + slope * (credit + 1)) / (1 + slope))
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
        a.credit = a.credit - got * size * @MICRO
      end
    end
    return b
  end)
  if contending then
    grants, left, refused = ledger.grants, ledger.left, ledger.refused
  else
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
  for at = @asks.rest, callers_at - 1, @group.bytes do
    local size, count = sub(asks, @group.size[at]) + 0, sub(asks, @group.count[at]) + 0
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
