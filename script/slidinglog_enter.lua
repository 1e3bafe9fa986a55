--@needs FORM LAYOUT WRAP as_proposed available base before closed closed_until contended cut date
--@needs discard entries epoch format granted head leave newest now offset oldest opened peak queue
--@needs refused renew rewrite share start status stepped sub target total trimmed used waits window
--@sets available before entries newest oldest opened renew rewrite total trimmed used waits written
--@gives next_us reply retry
-- Sliding log, after the grants: write them down, foresee what comes back, reply.
-- `granted` and `date`: how many, and when they may be used, now or ahead; `refused`: the size of
-- the first ask refused, or nil.
--
-- Makes `reply`: status, start or 0, free before, granted, used or booked, now, next us, retry us
-- (-1 never), reset us which a take or a reservation goes on with: quarantine left us, epoch,
-- target, share
local merged = false -- the grant joined an entry
if granted > 0 or renew or rewrite then
  -- The first write is one that needs memory: where the server refuses it (full, read-only),
  -- nothing has been written.
  if trimmed then
    local done = redis.pcall('SETRANGE', KEYS[1], '0', '@head.magic.form')
    if type(done) == 'table' and done.err then
      return {-2, done.err}
    end
    rewrite = true
    if oldest == 0 then
      -- they go last, if the log has not expired: an empty one is no key, and a slot on its way
      -- takes no new key
      entries = 0
    else
      local removed = redis.pcall('ZREMRANGEBYSCORE', KEYS[2], '-inf', format('%d', cut))
      if type(removed) == 'table' then
        return {-1, 2, removed.err}
      end
      entries, trimmed = entries - removed, false
    end
  end
  local logged, added = false, nil -- the open entry was closed; what was added to the log
  if granted > 0 and date > now then
    --@include slidinglog_book
    waits, renew = waits + granted, true -- it must be there when the permits are due
  elseif granted > 0 then
    if not entries then
      --@include slidinglog_rest
    end
    if date == newest
      or (share > @EXACT_SHARE and (entries >= @EXACT_LIVE or used * @LUMP < share)
        and (date - opened) * @RESOLUTION < window) then
      newest, merged = date, true
    else
      --@include slidinglog_rest
      if total ~= before then
        added = format('@entry.form', newest, before, newest - opened)
        local done = redis.pcall('ZADD', KEYS[2], format('%d', newest), added)
        if type(done) == 'table' then
          if sub(done.err, 1, 9) == 'WRONGTYPE' then
            return {-1, 2}
          end
          return {-2, done.err}
        end
        logged = true
        if oldest == 0 then
          oldest = newest
        end
        entries = entries + 1
      end
      before, opened, newest, renew = total, date, date, true
    end
    total, used = (total + granted) % WRAP, used + granted
  end
  if trimmed then
    local removed = redis.pcall('ZREMRANGEBYSCORE', KEYS[2], '-inf', format('%d', cut))
    if type(removed) == 'table' then
      if added then
        redis.pcall('ZREM', KEYS[2], added)
      end
      return {-1, 2, removed.err}
    end
  end
  local ttl, life = renew and sub(ARGV[2], @terms.head_life), renew and sub(ARGV[2], @terms.life) + 0
  if logged then
    redis.call('PEXPIRE', KEYS[2], format('%d', life))
  end
  local done
  if merged and not (renew or rewrite or stepped) then
    done = redis.pcall('SETRANGE', KEYS[1], '@head.newest.at', format('@head.newest..total.form', newest, total))
  else
    --@include slidinglog_rest
    local layout = as_proposed and ARGV[1] or format(LAYOUT, epoch, target, share)
    local text =
      format(FORM, layout, start, window, closed_until, offset, now, entries, base, oldest, opened, before, newest,
        total, contended) .. queue
    if renew then
      done = redis.pcall('SET', KEYS[1], text, 'PX', ttl)
    else
      done = redis.pcall('SET', KEYS[1], text, 'KEEPTTL') -- the queue may be shorter than before
    end
    written = true
  end
  if type(done) == 'table' and done.err then -- SETRANGE tells the length
    return {-2, done.err}
  end
  if discard then
    redis.call('DEL', KEYS[2])
  elseif renew and entries > 0 and not logged then
    redis.call('PEXPIRE', KEYS[2], format('%d', life))
  end
elseif stepped then
  --@include stepped
end

local next_us, retry, reset = 0, 0, 0
local bound = (as_proposed or share < target) and closed == 0 and share or target
local need = used + 1 - bound -- permits that must leave before one can be granted
if queue ~= '' then
  --@include slidinglog_peak
  --@include slidinglog_leave
  -- The time until permits can be granted: beside all that is booked, or behind the last booking
  -- beside which there is no room for them.
  local function wait(n)
    local us, sum, ahead, rest = 0, 0, 0, 1
    for from = 1, #queue, @pending.bytes do
      sum = sum + sub(queue, @pending.permits[from])
      local gone = sub(queue, @pending.base[from]) + 0
      if sub(queue, @pending.opened[from]) - now < window
        and (gone < 0 and used or (total - gone) % WRAP) + sum + n > bound then
        us, ahead, rest = sub(queue, @pending.date[from]) - now, sum, from + @pending.bytes
      end
    end
    while true do
      local gone = used + ahead + n - bound
      us = gone > 0 and math.max(us, leave(gone)) or us
      if rest > #queue or sub(queue, @pending.date[rest]) - now > us then
        return us
      end
      ahead = ahead + sub(queue, @pending.permits[rest]) -- it is in the log by then
      rest = rest + @pending.bytes
    end
  end
  next_us = (used == 0 and sub(queue, @pending.date) or oldest > 0 and oldest or newest) + window - now
  reset = sub(queue, @pending.date[..#queue]) + window - now
  local free = closed == 0 and peak < bound and bound - peak or 0
  if refused then
    retry = refused > bound and -1 or wait(refused)
  end
  if closed == 0 and free == 0 then
    next_us = bound > 0 and wait(1) or reset
  end
  if granted > 0 and date > now then
    available = free + granted -- what is booked leaves room before it
  end
else
  if used > 0 then
    next_us = (oldest > 0 and oldest or newest) + window - now
    reset = newest + window - now
    if not merged and total == (before or tonumber(sub(head, @head.before))) then
      -- What came back emptied the open entry: the last closed one leaves last.
      local member = oldest > 0 and redis.call('ZREVRANGE', KEYS[2], '0', '0')[1]
      if member then
        reset = sub(member, @entry.date) + window - now
      end
    end
  end
  if refused and refused > bound then
    retry = -1
  elseif refused and used + refused - bound == 1 then
    retry = next_us
  end
  if (need > 1 and used >= share) or (retry == 0 and refused and used + refused > bound) then
    --@include slidinglog_rest
    --@include slidinglog_leave
    if retry == 0 and refused and used + refused > bound then
      retry = leave(used + refused - bound)
    end
    if need > 1 and used >= share then
      next_us = need <= used and leave(need) or reset
    end
  end
end
if refused and retry >= 0 and retry < closed then
  retry = closed
end
if closed > 0 then
  next_us = closed
  if reset < closed then
    reset = closed
  end
end
local reply = {status, 0, available, granted, used + waits, now, next_us, retry, reset}
