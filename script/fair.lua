-- Fairness, in the take of any algorithm: while participants contend, who gets which of the free
-- permits, and when they should come back.
--
-- KEYS, last  the ledger: see fair_open.lua
-- @ASKS    how many groups there are, and 1 if callers carry reports, else 0; the groups; the
--          callers, whose weights are in thousandths.
--          Only with reports: thousandths of a permit of unmet demand since the last report, and
--          permits that blocked callers wait for.
--@layout asks
--@layout group
--@layout caller
--
-- `contended` is 0 or when somebody was last refused; where it changes, that is written: `remark`.
-- Gives how many permits were `granted` in all, the size of the first ask that was `refused`, and
-- what is `told`: how many of each group were granted, then after how many us each caller should
-- come back. Arithmetic in the order of internal/limittest/ledger, to which it is equal bit for
-- bit. A ledger that is damaged is thrown away: then the call is served as if nobody contended.
local asks, told = @ASKS, {}
local groups, reports = numbers('@asks.groups..reports.form', asks, 1)
reports = reports == 1
local last_group = @asks.rest + @group.bytes * (groups - 1)
local callers_at, caller_bytes = last_group + @group.bytes, reports and @caller.bytes or @caller.unmet.at
local named, left, refused, begun, contending, marked = #asks >= callers_at, available, nil, false, false, contended
if marked > 0 and marked + 2 * window <= now then
  contended, remark = 0, true
else
  contending = marked > 0 and named and closed == 0
end
if contending then
  --@include @SERVE
end
if not contending then
  for group = @asks.rest, last_group, @group.bytes do
    local size, count = numbers('@group.size..count.form', asks, group)
    local fit = (left - left % size) / size
    if fit < count then
      count, refused = fit, refused or size
    end
    left = left - count * size
  end
end
-- When participants contend is noted at first, and then eight times a window, by a call that is
-- granted something or finds nothing free.
if named and closed == 0 and (refused or reports) then
  begun = not contending
  if begun or (left < available or left < 1) and (now < marked or (now - marked) * 8 > window) then
    remark, contended = true, now
  end
end
local granted = available - left
