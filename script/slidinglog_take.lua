-- Take: propose a share, grant permits. A denial that moves neither share nor offset writes nothing.
--
-- ARGV  1 epoch (0: create nothing)  2 target  3 floor  4 window us  5 time to live ms  6 flags: 1 seen + 2 quarantine
--       7 known us: how long the limit is known to have existed  8.. size, count of each group of asks, at most 32 groups
-- Reply status, epoch, target, share, start, free before, granted, used, now, next us, retry us (-1 never), reset us, quarantine left us
if damaged then
  -- The log was evicted while its head stayed: what it held is forgotten, and may still be in use.
  base, before, entries, oldest, opened, newest, used = total, total, 0, 0, now, now, 0
  trimmed, discard, renew, status, closed_until = false, true, true, 2, 0
  if quarantine then
    status, closed_until = 3, now + window
  end
end
local closed = 0
if closed_until > now then
  closed = closed_until - now
end
-- Lowering: the share follows the log down to its target; in quarantine the log does not tell what is in use, so it waits.
if share > target and closed == 0 then
  local held = used > target and used or target
  if held < share then
    share, rewrite = held, true
  end
end
if epoch == proposed and share < target then
  local floor = ARGV[3] + 0
  if floor > target then
    floor = target
  end
  if share < floor then
    share, rewrite = floor, true
  end
end

local free = 0
if closed == 0 then
  free = share - used
end
local left, refused = free, nil
for i = 8, #ARGV - 1, 2 do
  local size, count = ARGV[i] + 0, ARGV[i + 1] + 0
  local fit = math.floor(left / size)
  if fit < count then
    count = fit
    refused = refused or size
  end
  left = left - count * size
end
local granted = free - left

if granted > 0 or renew or rewrite then
  -- The first write is one that needs memory: where the server refuses it (full, read-only), nothing has been written.
  if trimmed then
    local done = redis.pcall('SETRANGE', KEYS[1], '0', 'SLG1')
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
    local text = format(FORM, epoch, target, share, start, window, closed_until, offset, now, entries, base, oldest, opened, before, newest, total)
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
return {status, epoch, target, share, start, free, granted, used, now, soonest, retry, reset, closed}
