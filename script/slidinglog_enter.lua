--@needs FORM LAYOUT WRAP as_proposed available base before booked closed closed_until contended
--@needs crests cut date discard entries epoch format granted head leave newest now offset oldest
--@needs opened refused renew rewrite room share start status stepped sub target total trimmed used
--@needs window
--@sets available before booked entries newest oldest opened renew rewrite total trimmed used
--@sets written wrote
--@gives next_us reply retry
-- Sliding log, after the grants: write them down, foresee what comes back, reply.
-- `granted` and `date`: how many, and when they may be used, now or ahead; `refused`: the size of
-- the first ask refused, or nil.
--
-- Makes `reply`: status, start or 0, free before, granted, used, now, next us, retry us (-1 never),
-- reset us which a take or a reservation goes on with: quarantine left us, epoch, target, share
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
  if granted > 0 then
    if not entries then
      --@include slidinglog_rest
    end
    if date < newest then
      -- Others have booked ahead of it: it goes into the log where its date belongs, and the totals
      -- after it grow.
      local later = oldest > 0 and redis.pcall('ZRANGEBYSCORE', KEYS[2], format('(%d', date), '+inf') or {}
      if later.err then
        return {-1, 2, later.err}
      end
      local add, remove = {'ZADD', KEYS[2]}, {'ZREM', KEYS[2]}
      local place, from = later[1] and sub(later[1], @entry.before) + 0 or before, date
      local last =
        oldest > 0
          and redis.call('ZREVRANGEBYSCORE', KEYS[2], format('%d', date), format('(%d', cut), 'LIMIT', '0', '1')[1]
      local ended = last and sub(last, @entry.date) + 0
      -- No entry that holds much is prolonged: who has booked for the instant at which that is free
      -- again would have it in one window with what is granted now, and leave no room for anybody
      -- else.
      if last
        and (ended == date
          or (share > @EXACT_SHARE and entries >= @EXACT_LIVE
            and (date - ended + sub(last, @entry.span)) * @RESOLUTION < window
        and (place - sub(last, @entry.before)) % WRAP * @LUMP < share)) then
        place, from, merged = sub(last, @entry.before) + 0, ended - sub(last, @entry.span), true
      end
      if ended ~= date then
        add[3], add[4] = format('%d', date), format('@entry.form', date, place, date - from)
        if merged then
          remove[3] = last
        end
      end
      if oldest == 0 or oldest > date or (merged and oldest == ended) then
        oldest = date
      end
      for _, member in ipairs(later) do
        local dated = sub(member, @entry.date)
        add[#add + 1] = format('%d', dated + 0)
        add[#add + 1] =
          dated .. format('@entry.before.form', (sub(member, @entry.before) + granted) % WRAP)
            .. sub(member, @entry.span)
        remove[#remove + 1] = member
      end
      if #add > 2 then
        local done = redis.pcall(unpack(add))
        if type(done) == 'table' then
          return {-2, done.err}
        end
        added = add[4]
      end
      if #remove > 2 then
        redis.call(unpack(remove))
      end
      if not merged then
        entries, renew = entries + 1, true
      end
      before = (before + granted) % WRAP
    elseif date == newest
      or (share > @EXACT_SHARE and (entries >= @EXACT_LIVE or used * @LUMP < share)
        and (date - opened) * @RESOLUTION < window and (date == now or newest > now)) then
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
    if newest > now then
      renew = true -- it must be there when the permits are due
    end
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
  if newest > now then
    local longer = math.ceil((newest - now) / 1000)
    booked, ttl, life =
      newest, format('%d', sub(ARGV[2], @terms.head_life) + longer), sub(ARGV[2], @terms.life) + longer
  elseif booked > 0 or used > share then
    booked, rewrite = used > share and newest or 0, true
  end
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
        total, contended, booked)
    if renew then
      done = redis.pcall('SET', KEYS[1], text, 'PX', ttl)
    else
      done = redis.pcall('SETRANGE', KEYS[1], '0', text)
    end
    written = true
  end
  if done ~= @head.bytes and done.err then -- SETRANGE tells the length
    return {-2, done.err}
  end
  wrote = true
  if discard then
    redis.call('DEL', KEYS[2])
  elseif renew and entries > 0 and not logged then
    redis.call('PEXPIRE', KEYS[2], format('%d', life))
  end
elseif stepped then
  --@include stepped
end

local next_us, retry, reset = 0, 0, 0
local ceiling = (as_proposed or share < target) and closed == 0 and share or target
local need = used + 1 - ceiling -- permits that must leave before one can be granted
if used > 0 then
  next_us = (oldest > 0 and oldest or newest) + window - now
  reset = newest + window - now
  if not merged and total == (before or tonumber(sub(head, @head.before))) then
    -- Refunds emptied the open entry: the last closed one leaves last.
    local member = oldest > 0 and redis.call('ZREVRANGE', KEYS[2], '0', '0')[1]
    if member then
      reset = sub(member, @entry.date) + window - now
    end
  end
end
if newest > now then
  --@include slidinglog_crests
  --@include slidinglog_leave
  -- The time until permits can be granted.
  local function wait(n)
    local us = 0
    for _, crest in ipairs(crests) do
      if crest[1] - window < now + us and crest[2] + n > ceiling then
        us = math.max(us, leave(crest[3] + n - ceiling))
      end
    end
    return us
  end
  if refused then
    retry = refused > ceiling and -1 or wait(refused)
  end
  if closed == 0 and room == 0 then
    next_us = ceiling > 0 and wait(1) or reset
  end
  if granted > 0 and date > now then
    available = closed == 0 and room + granted or granted -- what is booked leaves room before it
  end
else
  if refused and refused > ceiling then
    retry = -1
  elseif refused and used + refused - ceiling == 1 then
    retry = next_us
  end
  if (need > 1 and used >= share) or (retry == 0 and refused and used + refused > ceiling) then
    --@include slidinglog_rest
    --@include slidinglog_leave
    if retry == 0 and refused and used + refused > ceiling then
      retry = leave(used + refused - ceiling)
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
local reply = {status, 0, available, granted, used, now, next_us, retry, reset}
