-- One-string algorithms, take and reserve, at the end: store the state if it must be, and reply.
local again = reset()
if renew then
  local life = ceil((again > closed and again or closed) / 1000) + ARGV[5]
  local done = redis.pcall('SET', KEYS[1], state(), 'PX', format('%d', life))
  if type(done) == 'table' and done.err then
    return {-2, done.err}
  end
elseif stepped then
  local done = redis.pcall('SETRANGE', KEYS[1], '88', format('%16d', offset))
  if type(done) == 'table' then
    return {-2, done.err}
  end
end

local later = soonest()
if closed > 0 then
  later = closed
  if again < closed then
    again = closed
  end
end
return {status, epoch, target, share, start, available, granted, used(), at, later, wait, again, closed, delay, second, third}
