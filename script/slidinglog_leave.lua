--@needs WRAP base before entries newest now oldest queue sub used window
--@gives leave
-- The time until `gone` permits have left: until the earliest closed entry leaves after which they
-- have. Bisection over the ranks, expired entries included. What is booked leaves last.
local function leave(gone)
  local last = newest + window - now
  if gone > used then
    for from = 1, #queue, @pending.bytes do
      if gone > used then
        last, gone = sub(queue, @pending.date[from]) + window - now, gone - sub(queue, @pending.permits[from])
      end
    end
    return last
  end
  if oldest == 0 or gone > (before - base) % WRAP then
    return last
  end
  local low, high = 0, entries - 1
  while low < high do
    local middle = math.floor((low + high) / 2)
    local member = redis.call('ZRANGE', KEYS[2], middle + 1, middle + 1)[1]
    local freed = member and (sub(member, @entry.before) - base) % WRAP or 0
    if freed >= gone and freed <= used then
      high = middle
    else
      low = middle + 1
    end
  end
  local member = redis.call('ZRANGE', KEYS[2], low, low)[1]
  return member and sub(member, @entry.date) + window - now or last
end
