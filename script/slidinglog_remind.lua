--@needs FORM LAYOUT WRAP base before booked closed_until contended cut damaged dated entries epoch
--@needs format head newest now offset oldest opened permits share start stepped sub target total
--@needs trimmed used window
--@sets before booked entries newest oldest opened share start total
-- Remind: enter what the shard forgot, each grant in an entry that is dated when the grant was, or
-- up to window/@REMIND_PART later. A share is never less than what is in use: what was so before
-- the loss has to leave the window before others may have it.
if not head then
  return {0, 0, 0}
end
if damaged then
  return {-1, 2}
end
--@include remind
local entered, log = 0, {}
local dates, opens, counts = {}, {}, {}
if #dated > 0 then
  log = oldest > 0 and redis.pcall('ZRANGEBYSCORE', KEYS[2], format('(%d', cut), '+inf') or log
  if log.err then
    return {-1, 2, log.err}
  end
  local sound = pcall(function()
    for i, member in ipairs(log) do
      local after = log[i + 1] and sub(log[i + 1], @entry.before) or before
      dates[i] = sub(member, @entry.date) + 0
      opens[i], counts[i] = dates[i] - sub(member, @entry.span), (after - sub(member, @entry.before)) % WRAP
    end
  end)
  if not sound then
    return {-1, 2}
  end
  if total ~= before then
    dates[#dates + 1], opens[#dates + 1], counts[#dates + 1] = newest, opened, (total - before) % WRAP
  end
  local near = math.floor(window / @REMIND_PART)
  local room = @MAX_PERMITS - used
  for k = #dated, 1, -1 do
    local date, n = dated[k], permits[k] < room and permits[k] or room
    if n > 0 then
      room, entered = room - n, entered + n
      local i = 1
      while dates[i] and dates[i] < date do
        i = i + 1
      end
      if dates[i] and dates[i] - date <= near then
        counts[i] = counts[i] + n
        if opens[i] > date then
          opens[i] = date
        end
      elseif i > 1 and date - opens[i - 1] <= near then
        dates[i - 1], counts[i - 1] = date, counts[i - 1] + n
      elseif #dates < @MOST_BOOKED then
        table.insert(dates, i, date)
        table.insert(opens, i, date)
        table.insert(counts, i, n)
      elseif dates[i] then
        counts[i] = counts[i] + n
      else
        dates[i - 1], opens[i - 1], counts[i - 1] = date, date, counts[i - 1] + n
      end
    end
  end
end
if entered > 0 then
  -- The first write is one that needs memory: where the server refuses it, nothing has been
  -- written.
  local done = redis.pcall('SETRANGE', KEYS[1], '0', '@head.magic.form')
  if type(done) == 'table' then
    return {-2, done.err}
  end
  if share < used + entered then
    share = used + entered
    if start < share then
      start = share
    end
  end
  local add, remove, stays, sum = {'ZADD', KEYS[2]}, {'ZREM', KEYS[2]}, {}, base
  entries = #dates - 1
  for i = 1, entries do
    local member = format('@entry.form', dates[i], sum, dates[i] - opens[i])
    add[#add + 1], add[#add + 2], stays[member] = format('%d', dates[i]), member, true
    sum = (sum + counts[i]) % WRAP
  end
  for _, member in ipairs(log) do
    if not stays[member] then
      remove[#remove + 1] = member
    end
  end
  -- New members go in before the old ones leave: an empty ZSET would lose its time to live.
  if #add > 2 then
    done = redis.pcall(unpack(add))
    if type(done) == 'table' then
      return {-2, done.err}
    end
  end
  if #remove > 2 then
    redis.call(unpack(remove))
  end
  if trimmed then
    redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', format('%d', cut))
  end
  before, opened, newest = sum, opens[#dates], dates[#dates]
  oldest, total, booked = entries > 0 and dates[1] or 0, (sum + counts[#dates]) % WRAP, newest > now and newest or 0
  local life = math.ceil((2 * window + (newest > now and newest - now or 0)) / 1000) + @LOG_KEEP
  if entries > 0 then
    redis.call('PEXPIRE', KEYS[2], format('%d', life))
  end
  local left = redis.pcall('PTTL', KEYS[1])
  if type(left) == 'number' and left > life then
    life = left
  end
  redis.call('SET', KEYS[1],
    format(FORM, format(LAYOUT, epoch, target, share), start, window, closed_until, offset, now, entries, base, oldest,
    opened, before, newest, total, contended, booked), 'PX', format('%d', life))
elseif stepped then
  --@include stepped
end
return {1, closed_until, entered}
