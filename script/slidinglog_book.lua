--@needs base before cut date format granted newest oldest queue share sub total window
--@sets queue
-- Sliding log, reserve: the permits go to the end of the queue. Bookings closer than the resolution
-- share an entry, dated like the last of them; what the window of the first holds is no less.
local last = #queue
if last > 0
  and (sub(queue, @pending.date[..last]) + 0 == date or last >= @pending.bytes[@MOST_PENDING]
    or (share > @EXACT_SHARE and (date - sub(queue, @pending.opened[..last])) * @RESOLUTION < window)) then
  queue =
    sub(queue, 1, last - @pending.bytes) .. format('@pending.date.form', date) .. sub(queue, @pending.opened[..last])
      .. format('@pending.permits.form', sub(queue, @pending.permits[..last]) + granted)
      .. sub(queue, @pending.base[..last])
else
  local gone = base
  if date - window > cut then
    local member =
      oldest > 0
        and redis.call('ZRANGEBYSCORE', KEYS[2], format('(%d', date - window), '+inf', 'LIMIT', '0', '1')[1]
    gone = member and sub(member, @entry.before) + 0 or newest > date - window and before or total
  end
  queue = queue .. format('@pending.date..base.form', date, date, granted, gone)
end
