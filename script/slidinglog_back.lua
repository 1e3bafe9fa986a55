--@needs WRAP as_proposed back before charge closed cut entries format newest now oldest opened peak
--@needs queue share sub target total used waits
--@sets before entries epoch oldest queue rewrite share target total used
--@gives date granted refunded refused
-- Sliding log, settle: give back permits of the entry that holds the grant made at shard time `at`,
-- or of the booking that is due then, and say what is charged. Keeps every date. What was granted a
-- window ago does not come back, though its entry may be younger: nobody knows any more whether it
-- did before.
--@include slidinglog_rest
if as_proposed then -- not read, as calm
  epoch, target = sub(ARGV[1], @proposal.epoch) + 0, sub(ARGV[1], @proposal.target) + 0
end
local at, refunded, later, emptied = ARGV[4] + 0, 0, nil, false
if back > 0 and at > now then
  local from = 1
  while from < #queue and sub(queue, @pending.date[from]) + 0 < at do
    from = from + @pending.bytes
  end
  if from < #queue and sub(queue, @pending.opened[from]) + 0 <= at then
    local held = sub(queue, @pending.permits[from]) + 0
    refunded = held < back and held or back
    local rest =
      refunded < held
        and sub(queue, @pending.date..opened[from]) .. format('@pending.permits.form', held - refunded)
          .. sub(queue, @pending.base[from])
        or ''
    queue = sub(queue, 1, from - 1) .. rest .. sub(queue, from + @pending.bytes)
  end
elseif back > 0 and at > cut and at >= opened then
  if at <= newest then
    refunded = (total - before) % WRAP
    if refunded > back then
      refunded = back
    end
  end
elseif back > 0 and at > cut and oldest > 0 then
  later = redis.pcall('ZRANGEBYSCORE', KEYS[2], format('%d', at), '+inf')
  if later.err then
    return {-1, 2, later.err}
  end
  local sound = pcall(function()
    local holder = later[1]
    if holder and at >= sub(holder, @entry.date) - sub(holder, @entry.span) then
      local after = later[2] and sub(later[2], @entry.before) + 0 or before
      local held = (after - sub(holder, @entry.before)) % WRAP
      refunded = held < back and held or back
      emptied = refunded == held
    end
  end)
  if not sound then
    return {-1, 2}
  end
end
if refunded > 0 then
  -- The first write is one that needs memory: where the server refuses it, nothing has been
  -- written.
  local done = redis.pcall('SETRANGE', KEYS[1], '0', '@head.magic.form')
  if type(done) == 'table' then
    return {-2, done.err}
  end
  rewrite = true
end
if refunded > 0 and at <= now then
  -- Windows that end with what is booked, and may have begun after it, keep what they hold.
  local place, bases = (total - (later and sub(later[1], @entry.before) or before)) % WRAP, ''
  for from = 1, #queue, @pending.bytes do
    local left = sub(queue, @pending.base[from]) + 0
    if left >= 0 and (total - left) % WRAP < place then
      left = (left - refunded) % WRAP
    end
    bases = bases .. sub(queue, @pending.date..permits[from]) .. format('@pending.base.form', left)
  end
  queue, used, total = bases, used - refunded, (total - refunded) % WRAP
end
if later and refunded > 0 then
  -- Later totals shrink. New members go in before the old ones leave: an empty ZSET would lose its
  -- time to live.
  before = (before - refunded) % WRAP
  local add, remove = {'ZADD', KEYS[2]}, {'ZREM', KEYS[2]}
  if emptied then
    remove[3] = later[1]
  end
  for i = 2, #later do
    local dated = sub(later[i], @entry.date)
    add[#add + 1] = format('%d', dated + 0)
    add[#add + 1] =
      dated .. format('@entry.before.form', (sub(later[i], @entry.before) - refunded) % WRAP)
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
--@include slidinglog_peak
if refunded > 0 and share > target and closed == 0 then
  share = math.min(share, math.max(target, peak, waits))
end
--@include slidinglog_available
-- What was used already counts, as far as it makes a difference.
local granted, date, refused = 0, now, nil
if charge > 0 and closed == 0 then
  local most = share < target and target or share
  if most > @MOST_USED - used then
    most = @MOST_USED - used
  end
  granted = charge < most and charge or most > 0 and most or 0
end
