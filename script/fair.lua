-- Fairness, in the take of any algorithm: while participants contend, who gets which of the free
-- permits, and when they should come back.
--
-- asks: how many groups, and 1 if callers carry reports, else 0; the groups; the callers, whose
-- weights are in thousandths. With reports: thousandths of a permit of unmet demand since the last
-- one, and permits that blocked callers wait for. marked: 0, or when somebody was last refused.
--@layout asks
--@layout group
--@layout caller
--
-- Gives how many permits were `granted`, and are `left`; the size of the first ask that was
-- `refused`; whether they are `contending`, or have just `begun`; the `mark`, if it changes; and
-- what is `told`: see fair_serve.lua. Or, if the ledger is not ours, the `foreign` reply. One that
-- is damaged is thrown away: then the call is served as if nobody contended.
local function fair(asks, free, marked, closed, now, window, share, target, booked, next_us)
  local groups, reports = numbers('@asks.groups..reports.form', asks, 1)
  local last_group = @asks.rest + @group.bytes * (groups - 1)
  local named, d = #asks >= last_group + @group.bytes, {told = {}, left = free}
  local over = marked > 0 and marked + 2 * window <= now
  local contending = marked > 0 and not over and named and closed == 0
  if contending then
    local left, refused
    contending, left, refused =
      pcall(serve, d.told, asks, groups, reports == 1, free, now, window, share, target, booked, next_us)
    if contending then
      d.left, d.refused = left, refused
    elseif type(left) == 'table' and left[1] then
      return {foreign = left}
    else
      redis.pcall('DEL', KEYS[#KEYS])
    end
  end
  if not contending then
    for group = @asks.rest, last_group, @group.bytes do
      local size, count = numbers('@group.size..count.form', asks, group)
      local fit = (d.left - d.left % size) / size
      if fit < count then
        count, d.refused = fit, d.refused or size
      end
      d.left = d.left - count * size
    end
  end
  d.granted, d.contending, d.mark = free - d.left, contending, over and 0 or nil
  -- When participants contend is noted at first, and then eight times a window, by a call that is
  -- granted something or finds nothing free.
  if named and closed == 0 and (d.refused or reports == 1) then
    d.begun = not contending
    if d.begun or (d.left < free or d.left < 1) and (now < marked or (now - marked) * 8 > window) then
      d.mark = now
    end
  end
  return d
end
