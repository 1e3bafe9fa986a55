-- Sliding log, after the grants: write them down, foresee what comes back, reply. Wants free, granted, refused: the size of the first ask refused.
--
-- Makes `reply`: status, epoch, target, share, start, free before, granted, used, now, next us, retry us (-1 never), reset us, quarantine left us
if granted > 0 or renew or rewrite then
  -- The first write is one that needs memory: where the server refuses it (full, read-only), nothing has been written.
  if trimmed then
    local done = redis.pcall('SETRANGE', KEYS[1], '0', 'SLG2')
    if type(done) == 'table' and done.err then
      return {-2, done.err}
    end
    local removed = redis.pcall('ZREMRANGEBYSCORE', KEYS[2], '-inf', format('%d', cut))
    if type(removed) == 'table' then
      return {-1, 2}
    end
    entries, rewrite = entries - removed, true
  end
  local merged, logged = false, false
  if granted > 0 then
    if now == newest or (share > 128 and entries >= 32 and (now - opened) * 128 < window) then
      newest, merged = now, true
    else
      if total ~= before then
        local done = redis.pcall('ZADD', KEYS[2], format('%d', newest), format('%16d%15d%11d', newest, before, newest - opened))
        if type(done) == 'table' then
          if sub(done.err, 1, 9) == 'WRONGTYPE' then
            return {-1, 2}
          end
          return {-2, done.err}
        end
        redis.call('PEXPIRE', KEYS[2], ARGV[5])
        logged = true
        if oldest == 0 then
          oldest = newest
        end
        entries = entries + 1
      end
      before, opened, newest, renew = total, now, now, true
    end
    total, used = (total + granted) % TURN, used + granted
  end
  local done
  if merged and not (renew or rewrite or stepped) then
    done = redis.pcall('SETRANGE', KEYS[1], '186', format('%16d%15d', newest, total))
  else
    local text = format(FORM, epoch, target, share, start, window, closed_until, offset, now, entries, base, oldest, opened, before, newest, total, contended, booked)
    if renew then
      done = redis.pcall('SET', KEYS[1], text, 'PX', ARGV[5])
    else
      done = redis.pcall('SETRANGE', KEYS[1], '0', text)
    end
  end
  if type(done) == 'table' and done.err then
    return {-2, done.err}
  end
  if discard then
    redis.call('DEL', KEYS[2])
  elseif renew and entries > 0 and not logged then
    redis.call('PEXPIRE', KEYS[2], ARGV[5])
  end
elseif stepped then
  local done = redis.pcall('SETRANGE', KEYS[1], '88', format('%16d', offset))
  if type(done) == 'table' then
    return {-2, done.err}
  end
end

local soonest, retry, reset = 0, 0, 0
if used > 0 then
  soonest = (oldest > 0 and oldest or newest) + window - now
  reset = newest + window - now
  if total == before then
    -- Refunds emptied the open entry: the last closed one leaves last.
    local member = redis.call('ZREVRANGE', KEYS[2], '0', '0')[1]
    if member then
      reset = sub(member, 1, 16) + window - now
    end
  end
end
if refused then
  local most = share < target and share or target
  local need = used + refused - most
  if refused > most then
    retry = -1
  elseif need == 1 then
    retry = soonest
  elseif need > 1 then
    retry = newest + window - now
    if oldest > 0 and need <= (before - base) % TURN then
      -- The earliest closed entry after which `need` permits have left: bisection over the ranks, expired entries included.
      local low, high = 0, entries - 1
      while low < high do
        local middle = math.floor((low + high) / 2)
        local member = redis.call('ZRANGE', KEYS[2], middle + 1, middle + 1)[1]
        local gone = member and (sub(member, 17, 31) - base) % TURN or 0
        if gone >= need and gone <= used then
          high = middle
        else
          low = middle + 1
        end
      end
      local member = redis.call('ZRANGE', KEYS[2], low, low)[1]
      if member then
        retry = sub(member, 1, 16) + window - now
      end
    end
  end
  if retry >= 0 and retry < closed then
    retry = closed
  end
end
if closed > 0 then
  soonest = closed
  if reset < closed then
    reset = closed
  end
end
local reply = {status, epoch, target, share, start, free, granted, used, now, soonest, retry, reset, closed}
