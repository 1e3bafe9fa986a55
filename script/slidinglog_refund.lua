--@needs FORM LAYOUT WRAP available base before closed closed_until contended cut damaged entries
--@needs epoch format head newest now offset oldest opened peak queue share start stepped sub target
--@needs total trimmed used window
--@sets before entries oldest queue share total used
--@gives refunded
-- Refund: give back permits of the entry that holds the grant made at shard time `at`, or of the
-- booking that is due then. Keeps every date and the time to live.
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
if at > now then
  local from = 1
  while from < #queue and sub(queue, @pending.date[from]) + 0 < at do
    from = from + @pending.bytes
  end
  if from < #queue and sub(queue, @pending.opened[from]) + 0 <= at then
    local held = sub(queue, @pending.permits[from]) + 0
    refunded = held < want and held or want
    local rest =
      refunded < held
        and sub(queue, @pending.date..opened[from]) .. format('@pending.permits.form', held - refunded)
          .. sub(queue, @pending.base[from])
        or ''
    queue = sub(queue, 1, from - 1) .. rest .. sub(queue, from + @pending.bytes)
  end
elseif at >= opened then
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

if refunded > 0 and at <= now then
  -- Windows that end with what is booked, and may have begun after it, keep what they hold.
  local place, bases = (total - (later and sub(later[1], @entry.before) or before)) % WRAP, ''
  for from = 1, #queue, @pending.bytes do
    local left = sub(queue, @pending.base[from]) + 0
    if (total - left) % WRAP < place then
      left = (left - refunded) % WRAP
    end
    bases = bases .. sub(queue, @pending.date..permits[from]) .. format('@pending.base.form', left)
  end
  queue, used, total = bases, used - refunded, (total - refunded) % WRAP
end
--@include quarantine
--@include slidinglog_peak
local lowered = false
if share > target and closed == 0 then
  local held = peak
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
  redis.call('SET', KEYS[1],
    format(FORM, format(LAYOUT, epoch, target, share), start, window, closed_until, offset, now, entries, base, oldest,
      opened, before, newest, total, contended) .. queue, 'KEEPTTL')
elseif stepped then
  --@include stepped
end
--@include fair_restore
--@include slidinglog_available
return {1, refunded, available, epoch, share}
