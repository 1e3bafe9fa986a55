--@needs beliefs clock state
-- Logs, take: the calm case, decided here before anything else is read. Everything is as proposed,
-- nothing is booked and nobody contends. One group asks, and gets all it wants; or one without a
-- name wants one permit, and there is none. Else the parts that follow decide.
--
-- Dates are compared as texts: they are of one width. What is written begins behind what is
-- proposed. The time to live is set anew in each sixteenth of a window.
local belief = beliefs[ARGV] -- what sections with these arguments have in common
if belief == nil then
  local sub, format, wanted, terms = string.sub, string.format, ARGV[3], ARGV[2]
  local now, fence = clock[1] * 1000000 + clock[2], sub(terms, @terms.fence)
  local share = tonumber(sub(ARGV[1], @proposal.floor))
  belief = sub(wanted, @asks.groups..reports) == '@ALONE' and share and share > 0
    and (fence == '@terms.fence.zero' or now <= fence + 0)
  if belief then
    local window, stamp = sub(ARGV[1], @proposal.window) + 0, format('@entry.date.form', now)
    local start = now - now % window
    belief = {
      share = share, window = window, now = now, n = sub(wanted, @one.size) * sub(wanted, @one.count),
      nameless = #wanted < @one.callers,
      stamp = stamp, date = @FIXED and format('@entry.date.form', start) or stamp,
      cut = format('@entry.date.form', now - window), reset = (@FIXED and start or now) + window - now,
    }
  end
  beliefs[ARGV] = belief
end
if belief and type(state) == 'string' then
  local sound, reply = pcall(function()
    local sub, find, format, floor = string.sub, string.find, string.format, math.floor
    local date, cut, stamp, touched = belief.date, belief.cut, belief.stamp, sub(state, @packed.touched)
    local newest = sub(state, @log.newest)
    if find(state, ARGV[1], 1, true) ~= 1
      or sub(state, @packed.closed_until..contended) ~= '@packed.closed_until..contended.zero'
      or touched > stamp or newest > stamp or #state < @log.bytes then
      return
    end
    local count, total, before = sub(state, @log.count) + 0, sub(state, @log.total) + 0, sub(state, @log.before) + 0
    local dead, oldest, since = sub(state, @log.dead) + 0, sub(state, @log.oldest), nil
    touched = touched + 0
    if not (total >= 0 and total < @WRAP and before >= 0 and before < @WRAP and count >= 0 and count % 1 == 0
      and dead >= 0 and dead % 1 == 0 and dead + count < 2e4
      and (#state == @READ or #state >= @log.bytes + (dead + count - 1) * @entry.bytes)) then
      return
    end
    local place, rest = @log.bytes + dead * @entry.bytes, nil -- where the first is that is alive; what comes there anew
    if newest <= cut then
      since, before = sub(state, @log.since), total
      if count > 0 then
        since = newest + (@FIXED and belief.window or 1)
      end
      count, dead, place = 0, 0, @log.bytes
    elseif oldest <= cut then
      local was, first = place, sub(state, @entry.date[place + 1])
      while count > 1 and first ~= '' and first <= cut do
        place, count = place + @entry.bytes, count - 1
        first = sub(state, @entry.date[place + 1])
      end
      if place == was or count > 1 and #first < @entry.date.width then
        return -- not all that has left is read
      end
      since = sub(state, @entry.date[..place]) + (@FIXED and belief.window or 1)
      before = sub(state, @entry.total[..place]) + 0
      oldest, dead = count > 1 and first or newest, dead + (place - was) / @entry.bytes
      if dead > count then
        rest = sub(state, place + 1, place + (count - 1) * @entry.bytes)
        if #rest < (count - 1) * @entry.bytes then
          return
        end
        dead, place = 0, @log.bytes
      end
    end
    local n, now, used, window, share = belief.n, belief.now, (total - before) % @WRAP, belief.window, belief.share
    local free = share - used
    if n > free then
      if n > 1 or free < 0 or not belief.nameless then
        return
      end
      local first = oldest + window - now
      return {1, 0, 0, 0, used, now, first, first, newest + window - now}
    end
    if count == 0 then
      count, oldest, since = 1, date, since or sub(state, @log.since)
    elseif newest ~= date and count < @MOST_ENTRIES
      and (@FIXED or count < @EXACT_LIVE or share <= @EXACT_SHARE
      or newest + 0 < now - now % floor(window / @CELLS)) then
      local closed = sub(state, @log.newest..total)
      if rest then
        rest = rest .. closed
      else
        closed = redis.pcall('SETRANGE', KEYS[1], format('%d', place + (count - 1) * @entry.bytes), closed)
        if type(closed) == 'table' then
          return {-2, closed.err}
        end
      end
      count = count + 1
    elseif count == 1 then
      oldest, since = date, since or sub(state, @log.since)
    end
    local own = stamp .. format('@log.count.form', count) .. date .. format('@log.total.form', (total + n) % @WRAP)
    if since then
      own = own .. format('@log.since..oldest.form', since, before, dead, oldest) .. (rest or '')
    end
    local done = redis.pcall('SETRANGE', KEYS[1], '@packed.touched.at', own)
    if type(done) == 'table' then
      return {-2, done.err}
    end
    if touched < now - now % (window / 16) then
      redis.pcall('PEXPIRE', KEYS[1], format('%d', math.ceil(belief.reset / 1000) + sub(ARGV[2], @terms.head_life)))
    end
    return {1, 0, free, n, used + n, now, count > 1 and oldest + window - now or belief.reset, 0, belief.reset}
  end)
  if sound and reply then
    return reply
  end
end
