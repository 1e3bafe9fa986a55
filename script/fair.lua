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
-- Gives how many permits were granted, and are left; the size of the first ask that was refused;
-- what is told, if participants contend: see fair_serve.lua; whether they have just begun to; what
-- becomes of the mark, if that changes; and whether the ledger is damaged: then the call is served
-- as if nobody contended. If the ledger is not ours it gives nil and the reply.
local function fair(asks, free, marked, closed, now, window, share, target, booked, next_us)
  local groups, reports = numbers('@asks.groups..reports.form', asks, 1)
  local last_group = @asks.rest + @group.bytes * (groups - 1)
  local named, over = #asks >= last_group + @group.bytes, marked > 0 and marked + 2 * window <= now
  local left, told, refused, begun, mark, damaged = free, nil, nil, false, over and 0 or nil, false
  if marked > 0 and not over and named and closed == 0 then
    told = {}
    local sound, rest, first =
      pcall(serve, told, asks, groups, reports == 1, free, now, window, share, target, booked, next_us)
    if sound then
      left, refused = rest, first
    elseif type(rest) == 'table' and rest[1] then
      return nil, rest
    else
      told, damaged = nil, true
    end
  end
  if not told then
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
  if named and closed == 0 and (refused or reports == 1) then
    begun = not told
    if begun or (left < free or left < 1) and (now < marked or (now - marked) * 8 > window) then
      mark = now
    end
  end
  return free - left, left, refused, told, begun, mark, damaged
end
