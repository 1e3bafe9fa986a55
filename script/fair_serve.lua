-- Fairness: serves the callers, who contend, one after the other of what is `left`. Gives what is
-- left then, and the size of the first ask that was refused. It fills in `told`: how many of each
-- group were granted, then after how many us each caller should come back. next_us() is how long it
-- is until more is free. It raises what fair_header.lua raises.
local function serve(told, asks, groups, reports, left, now, window, share, target, booked, next_us)
  local sub, floor, ceil, max, min, sqrt = string.sub, math.floor, math.ceil, math.max, math.min, math.sqrt
  -- While a share rises to its target, permits leave the window elsewhere as fast as if it were all
  -- here, and come here at once. So it is as if it were.
  local goal, refused, soon = max(share, target), nil, nil
  local last_group = @asks.rest + @group.bytes * (groups - 1)
  local callers_at, caller_bytes = last_group + @group.bytes, reports and @caller.bytes or @caller.unmet.at
  local batch, refused_ask = groups > 0 and numbers('@group.size.form', asks, @asks.rest) or 1, groups + 1
  local reserve = @HEADROOM_PART * goal >= 2 and @HEADROOM_PART * goal or 0
  for here = callers_at, #asks, caller_bytes do
    local id, weight, unmet, waiting = sub(asks, @caller.id[here]), nil, 0, 0
    if reports then
      weight, unmet, waiting = numbers('@caller.weight..waiting.form', asks, here + @caller.weight.at)
    else
      weight = numbers('@caller.weight.form', asks, here + @caller.weight.at)
    end
    --@include fair_open
    local unserved, first, retry, ask, paid = 0, 0, 0, 1, false
    local slope, nth = reserve / depth, (here - callers_at) / caller_bytes
    for group = @asks.rest, last_group, @group.bytes do
      local size, wanted, by = numbers('@group.form', asks, group)
      if by == nth then
        local got = min((left - left % size) / size, wanted)
        if part > 0 and got > 0 then
          -- The emptier the credit, the more must stay free.
          local may = floor(floor(min(credit, (left - reserve + slope * (credit + 1)) / (1 + slope))) / size)
          if may < 1 then
            may = (credit >= depth or not heavy and credit >= 0) and 1 or 0
          end
          got = min(got, may)
        end
        if got > 0 then
          left, credit, paid = left - got * size, credit - got * size, true
          used = min(used + 2 * got * size * @MILLI, @MOST)
        end
        if got < wanted then
          unserved, first = unserved + (wanted - got) * size, first > 0 and first or size
          if ask < refused_ask then
            refused, refused_ask = size, ask
          end
        end
        told[ask] = got
      end
      ask = ask + 1
    end
    changed = changed or paid
    if part > 0 then
      if paid then
        empty = max(now - max(floor(credit * @MILLI * window / rate + 0.5), -@MOST), 0)
      end
      local lacks = unserved
      if unserved == 0 and heavy and (left < 1 or credit < depth
        and floor(min(credit, (left - reserve + slope * (credit + 1)) / (1 + slope))) < 1) then
        first, lacks = 1, 1 -- it would be refused now: it need not come to hear it
      end
      if lacks > 0 or not heavy then
        local want = lacks > 0 and max(1, min(first, depth), min(lacks, floor(depth / 2))) or 1
        retry = max((want - credit) * window / part, 0)
        local spared = ceil(reserve * (1 - credit / depth))
        local most = not heavy and 0 or first > left and @MOST or waiting > 0 and first + spared > left and @BRIEF or 0
        retry = max(retry, min(min(depth - credit, max(1, goal / @WANT_PART)) * window / part, most))
        if unserved > 0 then
          local need = first - left + (credit >= want and spared or 0)
          if need > 0 then
            soon = soon or next_us()
            retry = max(retry, soon + (need - 1) * window / max(goal, 1))
          end
          retry = max(retry, window / @LEAST_PART)
        end
        retry = ceil(min(retry, window))
      end
    end
    told[groups + nth + 1] = retry
    if unserved > 0 then
      soon = soon or left < 1 and next_us() or nil
      local back = left < 1 and max(retry, soon) or retry
      --@include fair_stay
    end
    --@include fair_write
  end
  return left, refused
end
