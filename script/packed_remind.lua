--@needs FORM MAGIC burst ceil closed_until contended dated epoch format head now offset permits
--@needs remind reminded reset share start stepped sub target text window
-- One-string algorithms, remind: count what the shard forgot. The algorithm's part has the function
-- remind(dated, permits, full): count permits dated so, or a bucket full again after so many us;
-- returns the permits that it counted, and whether the state changed.
if not head then
  return {0, 0, 0}
end
--@include remind
local entered, changed = 0, false
if reminded then
  local full_in = 0 -- what was heard since the loss, or at another rate, would empty a bucket
  if sub(ARGV[1], @reminder.share) + 0 == share and sub(ARGV[1], @reminder.window) + 0 == window
    and sub(ARGV[1], @reminder.under) + 0 ~= closed_until then
    full_in = sub(ARGV[1], @reminder.full) + 0
  end
  entered, changed = remind(dated, permits, full_in)
end
if changed then
  local state = format(FORM, MAGIC, epoch, target, share, start, window, closed_until, offset, now, burst, contended)
    .. text()
  local left, life = redis.pcall('PTTL', KEYS[1]), ceil((reset() + 2 * window) / 1000) + @LOG_KEEP
  if type(left) == 'number' and left > life then
    life = left
  end
  local done = redis.pcall('SET', KEYS[1], state, 'PX', format('%d', life))
  if type(done) == 'table' and done.err then
    return {-2, done.err}
  end
elseif stepped then
  --@include stepped
end
return {1, closed_until, entered}
