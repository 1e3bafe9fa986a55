-- One-string algorithms, take and reserve, at the end: store the state if it must be, and make `reply`:
-- status, epoch, target, share, start, free before, granted, used, what refund needs, next us, retry us (-1 never), reset us, quarantine left us,
-- then of a take: delay of the first permit us + a part of a us over share, window us
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

local soonest, written = soonest(), renew
if closed > 0 then
  soonest = closed
  if again < closed then
    again = closed
  end
end
local reply = {status, epoch, target, share, start, available, granted, used(), at, soonest, wait, again, closed, delay, second, third}
