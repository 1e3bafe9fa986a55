-- One-string algorithms, take and reserve: create the state or adopt the caller's newer epoch, then move the share.
--
-- ARGV  1 epoch (0: create nothing)  2 target  3 floor  4 window us  5 time to live ms once unused  6 flags: 1 seen + 2 quarantine
--       7 known us: how long the limit is known to have existed  8 burst; with target 0, 1 if another algorithm takes over
--       9.. the operation's own
local proposed = ARGV[1] + 0
local status = 1
local renew = false -- the state must be written
local lowest = ARGV[3] + 0
local had = {share, window, burst, target}
if not head then
  if proposed == 0 then
    return {0, 0, 0, 0, 0, 0, 0, 0, now, 0, 0, 0, 0, 0, 0, 0}
  end
  local left = 0 -- microseconds for which permits of a forgotten state may still be in use
  epoch, target, burst, renew, status = proposed, ARGV[2] + 0, ARGV[8] + 0, true, 2
  window = ARGV[4] + 0
  local most = lasts()
  if ARGV[6] == '1' or ARGV[6] == '3' then
    left = most
  else
    local info = redis.pcall('INFO', 'server')
    local uptime = type(info) == 'string' and tonumber(string.match(info, 'uptime_in_seconds:(%d+)'))
    if uptime and uptime * 1000000 < most and ARGV[7] + 0 > (uptime + 1) * 1000000 then
      left = most - uptime * 1000000
    end
  end
  if left > 0 and (ARGV[6] == '2' or ARGV[6] == '3') then
    status = 3
    closed_until = now + left
  else
    share = lowest < target and lowest or target
  end
  begin()
elseif epoch < proposed then
  epoch, target, start, burst, renew = proposed, ARGV[2] + 0, share, ARGV[8] + 0, true
  local was = window
  window = ARGV[4] + 0
  if window ~= was then
    regrid(was)
  end
  if target == 0 and burst > 0 then -- another algorithm takes over
    if had[4] == 0 and had[3] > 0 and window == was then
      burst = had[3]
    else
      burst = share
      retire()
    end
  end
end
local most = target > 0 and burst > 0 and burst or target -- permits that can ever be free
local closed = 0
if closed_until > now then
  closed = closed_until - now
end
-- In quarantine the state does not tell what is in use, so the share neither falls nor rises.
if closed == 0 then
  if share > target then
    local least = held()
    if least < target then
      least = target
    end
    if least < share then
      share = least
    end
  elseif share < target and epoch == proposed then
    if lowest > target then
      lowest = target
    end
    if share < lowest then
      share = lowest
    end
  end
end
if head and (share ~= had[1] or window ~= had[2] or burst ~= had[3] or target ~= had[4]) then
  renew = true
  reshape()
end
