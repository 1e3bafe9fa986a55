--@needs FORM LAYOUT WRAP base before closed_until contended entries epoch format newest now offset
--@needs oldest opened queue share start sub target total window
--@sets before entries newest oldest opened queue stepped total
-- Sliding log, before anything that may write: what is due goes from the queue into the log. So the
-- log is always in order of dates.
if queue ~= '' and sub(queue, @pending.date) + 0 <= now then
  local add, from = {'ZADD', KEYS[2]}, 1
  local sound = pcall(function()
    while from < #queue and sub(queue, @pending.date[from]) + 0 <= now do
      if total ~= before then
        add[#add + 1] = format('%d', newest)
        add[#add + 1] = format('@entry.form', newest, before, newest - opened)
        oldest = oldest > 0 and oldest or newest
        entries = entries + 1
      end
      local first = sub(queue, @pending.opened[from]) + 0
      opened = first > newest and first or newest + 1
      before, newest = total, sub(queue, @pending.date[from]) + 0
      total = (total + sub(queue, @pending.permits[from])) % WRAP
      from = from + @pending.bytes
    end
  end)
  if not sound then
    return {-1, 1}
  end
  queue = sub(queue, from)
  if #add > 2 then
    local done = redis.pcall(unpack(add))
    if type(done) == 'table' then
      if sub(done.err, 1, 9) == 'WRONGTYPE' then
        return {-1, 2}
      end
      return {-2, done.err}
    end
    redis.call('PEXPIRE', KEYS[2], format('%d', math.ceil(window / 500) + @MIN_KEEP))
  end
  local done = redis.pcall('SET', KEYS[1],
    format(FORM, format(LAYOUT, epoch, target, share), start, window, closed_until, offset, now, entries, base, oldest,
      opened, before, newest, total, contended) .. queue, 'KEEPTTL')
  if done.err then
    return {-2, done.err}
  end
  stepped = false
end
