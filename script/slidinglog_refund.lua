--@needs FORM LAYOUT WRAP base before booked closed closed_until contended cut damaged entries epoch
--@needs format head newest now offset oldest opened room share start stepped sub target total
--@needs trimmed used window
--@sets before booked entries newest oldest opened share total used
--@gives refunded
-- Refund: give back permits of the entry that holds the grant made at shard time `at`. Keeps every
-- date and the time to live.
--
-- ARGV  1 permits  2 at us
--       3, 4 of whom: see fair_restore.lua
-- Reply status, refunded, free, epoch, share
if not head then
  return {0, 0, 0, 0, 0}
end
if damaged then
  return {-1, 2}
end
local want, at = ARGV[1] + 0, ARGV[2] + 0
local refunded, later, emptied = 0, nil, false
if at >= opened then
  if at <= newest then
    refunded = (total - before) % WRAP
    if refunded > want then
      refunded = want
    end
  end
elseif oldest > 0 then
  local least = at > cut and at or cut + 1
  later = redis.pcall('ZRANGEBYSCORE', KEYS[2], format('%d', least), '+inf')
  if later.err then
    return {-1, 2, later.err}
  end
  local sound = pcall(function()
    local holder = later[1]
    if holder and at >= sub(holder, @entry.date) - sub(holder, @entry.span) then
      local after = later[2] and sub(later[2], @entry.before) + 0 or before
      local held = (after - sub(holder, @entry.before)) % WRAP
      refunded = held < want and held or want
      emptied = refunded == held
    end
  end)
  if not sound then
    return {-1, 2}
  end
end

--@include quarantine
local lowered = false
if share > target and closed == 0 then
  local held = used - refunded
  if held < target then
    held = target
  end
  if held < share then
    share, lowered = held, true
  end
end

if refunded > 0 or lowered then
  -- The first write is one that needs memory: where the server refuses it, nothing has been
  -- written.
  local done = redis.pcall('SETRANGE', KEYS[1], '0', '@head.magic.form')
  if type(done) == 'table' then
    return {-2, done.err}
  end
  if trimmed then
    local removed = redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', format('%d', cut))
    entries = newest > cut and entries - removed or 0 -- the log may have expired before the head
  end
  if refunded > 0 then
    used = used - refunded
    total = (total - refunded) % WRAP
  end
  if later and refunded > 0 then
    -- Later totals shrink. New members go in before the old ones leave: an empty ZSET would lose
    -- its time to live.
    before = (before - refunded) % WRAP
    local add, remove = {'ZADD', KEYS[2]}, {'ZREM', KEYS[2]}
    if emptied then
      remove[3] = later[1]
    end
    for i = 2, #later do
      local date = sub(later[i], @entry.date)
      add[#add + 1] = format('%d', date + 0)
      add[#add + 1] =
        date .. format('@entry.before.form', (sub(later[i], @entry.before) - refunded) % WRAP)
          .. sub(later[i], @entry.span)
      remove[#remove + 1] = later[i]
    end
    if #add > 2 then
      redis.call(unpack(add))
    end
    if #remove > 2 then
      redis.call(unpack(remove))
    end
    if emptied then
      entries = entries - 1
      if oldest == sub(later[1], @entry.date) + 0 then
        oldest = later[2] and sub(later[2], @entry.date) + 0 or 0
      end
    end
  end
  if newest > now and total == before then
    -- What was booked last is cancelled: the entry before it is the newest again.
    local last = oldest > 0 and redis.call('ZREVRANGE', KEYS[2], '0', '0')[1]
    if last then
      newest, before = sub(last, @entry.date) + 0, sub(last, @entry.before) + 0
      opened = newest - sub(last, @entry.span)
      redis.call('ZREM', KEYS[2], last)
      entries = entries - 1
      if oldest == newest then
        oldest = 0
      end
    else
      opened, newest = now, now
    end
  end
  booked = (newest > now or (booked > 0 and used > share)) and newest or 0
  redis.call('SETRANGE', KEYS[1], '0',
    format(FORM, format(LAYOUT, epoch, target, share), start, window, closed_until, offset, now, entries, base, oldest,
    opened, before, newest, total, contended, booked))
elseif stepped then
  --@include stepped
end
--@include fair_restore
local free = 0
if closed == 0 and newest > now then
  -- Never an error from here on, as it is done: of a log that cannot be read, nothing is free.
  local function vacant()
    --@include slidinglog_crests
    return room
  end
  local room = vacant()
  free = type(room) == 'number' and room or 0
elseif closed == 0 and used < share then
  free = share - used
end
return {1, refunded, free, epoch, share}
