--@needs MARK as_proposed begun contended contending format grants groups ledger left next_us now
--@needs paced place record remark reply sub target window written
--@gives b appointed
-- Fairness, part 2, after the grants are written: when each participant should come back, what it
-- wants, and the water level.
--
-- `written` tells whether the whole head has been written, and with it `contended`; `next_us` is
-- when permits come back, 0 if none are out. Appends to `reply` the grants of each group, and slot
-- and retry us of each caller. The ledger lives as long as the head. A server that refuses to write
-- harms fairness only.
if remark and not written then
  redis.pcall('SETRANGE', KEYS[1], MARK, format('@head.contended.form', contended))
end
if begun then
  redis.pcall('DEL', KEYS[#KEYS])
end
if contending then
  for i = 1, groups do
    reply[#reply + 1] = grants[i]
  end
  pcall(function()
    local share = paced
    local floor, ceil, max, min = math.floor, math.ceil, math.max, math.min
    local b = ledger
    local appointed = b.appointed
    for _, entry in ipairs(b.entries) do
      local a, e, asked, unserved = entry.a, entry.e, entry.refused, entry.unserved
      if e > 0 then
        b.draw(a, entry.full) -- what was granted is made up for at once
      end
      local credit, pause, denied = a.credit / @MICRO, 0, entry.unserved > 0
      if e > 0 and unserved == 0 then
        if a.claim < e * @MILLI then
          pause = ceil(max(min(window / @PAUSE_PART, (1 - credit) * window / e), 0))
        elseif left < 1 or a.credit < entry.full then
          -- It wants more than its part: if it would be refused now, it need not come to hear it.
          local slope = b.headroom / entry.depth
          if left < 1 or credit < 1 or floor((left - b.headroom + slope * (credit + 1)) / (1 + slope)) < 1 then
            asked, unserved = 1, 1
          end
        end
      end
      if e > 0 and unserved > 0 then
        local missing = asked - left
        local want = max(1, min(asked, entry.depth), min(unserved, floor(min(entry.depth / 2, share / @WANT_PART))))
        if credit < want then
          pause = min(window / @PAUSE_PART, (want - credit) * window / e)
        else
          missing = missing + ceil(b.headroom * (1 - credit / entry.depth))
        end
        if missing > 0 then
          pause = max(pause, next_us + (missing - 1) * window / max(share, 1))
        end
        -- The permits that come back are appointed to one after the other, or all would come at the
        -- same release.
        if a.claim >= e * @MILLI then
          if a.due <= now or a.due - now > @FAR_AHEAD * window then
            local appointment_in = appointed - now
            if appointment_in < 0 or appointment_in > @FAR_AHEAD * window then
              -- further than appointments reach: the clock was set back
              appointment_in = 0
            end
            if left < 1 then -- nothing before the next permit comes back
              appointment_in = max(appointment_in, min(next_us, window) - ceil(window / max(share, 1)))
            end
            if appointment_in * @REACH_PART <= window then
              appointment_in = appointment_in + ceil(want * window / max(share, 1))
              appointed = now + appointment_in
            end
            a.due = now + appointment_in
          end
          pause = max(pause, a.due - now)
        end
        pause = ceil(max(min(pause, window), window / @LEAST_PART))
      end
      if denied then -- until it is to come back it is not silent
        a.denied = now + min(left < 1 and max(pause, next_us) or pause, @RECENTLY * window)
        a.seen = max(a.seen, a.denied)
        if e > 0 and left < 1 and not as_proposed and share > target then -- the share still follows what was used down
          b.lend(a, e, entry.full, next_us)
        end
      end
      reply[#reply + 1] = entry.own
      reply[#reply + 1] = pause
    end

    --@include fair_record
    local upcoming, began, light, heavy, claims, weight, count = -1, 0, 0, 0, 0, 0, 0
    local header = b.header
    if header == '' then
      --@include fair_begin
    else
      upcoming, began = sub(header, @ledger.next) + 0, sub(header, @ledger.began) + 0
    end
    for slot = b.stored, b.count - 1 do
      redis.call('SETRANGE', KEYS[#KEYS], place(slot), record(b.accounts[slot]))
    end
    for slot, a in pairs(b.accounts) do
      if slot < b.stored then
        redis.call('SETRANGE', KEYS[#KEYS], place(slot), record(a))
      end
    end

    -- The sweep: a pass over all accounts, a few with each call, that ends in one step of Newton's
    -- iteration towards the level.
    local often = b.heavy > 0 and @PASSES or max(@PASSES, floor(@ANEW * @SLICE / max(@SLICE, b.count)))
    local due = upcoming < 0 and not (now >= began and (now - began) * often < window)
    if upcoming < 0 and not due then
      if b.count ~= b.stored or appointed ~= b.appointed then
        redis.call('SETRANGE', KEYS[#KEYS], '@ledger.accounts.at',
          format('@ledger.accounts..appointed.form', b.count, appointed))
      end
      return
    end
    if due then
      upcoming, began = 0, now
      redis.call('PEXPIRE', KEYS[#KEYS], format('%d', sub(ARGV[2], @terms.life) + 0))
    else
      light, heavy, claims, weight, count =
        sub(header, @ledger.light) + 0, sub(header, @ledger.above) + 0, sub(header, @ledger.claims) + 0,
        sub(header, @ledger.weight) + 0, sub(header, @ledger.count) + 0
    end
    local whole = upcoming == 0 and b.count <= @SLICE
    local demands, weights = {}, {}
    local from = upcoming
    local lines =
      redis.call('GETRANGE', KEYS[#KEYS], place(from),
        format('%d', @ledger.bytes + (from + @SLICE) * @account.bytes - 1))
    local moved
    for _ = 1, @SLICE do
      if upcoming >= b.count then
        break
      end
      local begins = (upcoming - from) * @account.bytes
      local line = moved
      if not line then
        line = lines
      else
        begins = 0
      end
      local silent = max(now - sub(line, @account.seen[begins + 1]), 0)
      local demand = sub(line, @account.claim[begins + 1]) + 0
      if silent * @FADING > window then
        demand = silent >= window and 0 or floor(demand * ((window - silent) * @FADING) / (window * (@FADING - 1)))
      end
      local gone = silent >= @FORGETTING * window
      if upcoming == 0 then
        gone = false
      elseif not gone and b.count > @ROOMY then
        local once = sub(line, @account.cell[begins + 1]) + 0 == 0
        if b.count > @MAX_ACCOUNTS and not once then -- who wants hardly anything makes room
          gone = demand * @HARDLY * @MAX_ACCOUNTS < share * @MILLI
        else
          gone = once and silent * (b.count > @MAX_ACCOUNTS and @ONCE_FULL or @ONCE_ROOMY) >= window
        end
      end
      if gone then
        b.count = b.count - 1
        if upcoming < b.count then
          moved =
            redis.call('GETRANGE', KEYS[#KEYS], place(b.count),
              format('%d', @ledger.bytes + (b.count + 1) * @account.bytes - 1))
          redis.call('SETRANGE', KEYS[#KEYS], place(upcoming), moved)
        end
      else
        if demand ~= 0 then
          local w = sub(line, @account.weight[begins + 1]) + 0
          claims, weight, count = claims + demand, weight + w, count + 1
          if whole then
            demands[count], weights[count] = demand, w
          end
          if b.heavy == 0 or demand * b.heavy < w * b.spare then
            light = light + demand
          else
            heavy = heavy + w
          end
        end
        upcoming = upcoming + 1
        moved = nil
      end
    end
    if upcoming >= b.count then
      upcoming, b.weights = -1, weight
      local capacity = share * @MILLI
      local lowest = weight
      if count < 2 or claims <= capacity then
        b.spare, b.heavy = 0, 0
      elseif not whole then
        if heavy == 0 or light >= capacity then
          b.spare, b.heavy = capacity, lowest
        else
          b.spare, b.heavy = capacity - light, heavy
        end
      else
        b.spare, b.heavy = capacity, lowest
        for _ = 1, @SLICE do
          local below, above = 0, 0
          for i = 1, count do
            if demands[i] * b.heavy < weights[i] * b.spare then
              below = below + demands[i]
            else
              above = above + weights[i]
            end
          end
          local spare, bound = capacity - below, above
          if above == 0 or below >= capacity then
            spare, bound = capacity, lowest
          end
          if spare == b.spare and bound == b.heavy then
            break
          end
          b.spare, b.heavy = spare, bound
        end
      end
    end
    redis.call('SETRANGE', KEYS[#KEYS], '0',
      format('@ledger.form', b.count, appointed, b.spare, b.heavy, upcoming, began, light, heavy, claims, weight, count,
      b.weights))
  end)
end
