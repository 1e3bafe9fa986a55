--@needs as_proposed begin burst closed closed_until epoch head held lasts now regrid reshape retire
--@needs share sub target window
--@sets burst closed_until epoch share start target window
--@gives entitled lasting left most proposed renew status
-- One-string algorithms, take and reserve: create the state or adopt the caller's newer epoch, then
-- move the share.
--
-- ARGV  1 and 2 as packed_adopt.lua says, the time to live being that once unused, and the
--       burst with target 0 1 if another algorithm takes over
--       3.. the operation's own
local proposed = as_proposed and epoch or sub(ARGV[1], @proposal.epoch) + 0
local status = 1
local renew = false -- the state must be written
local entitled -- what the share falls to; nil: the target
local had = not as_proposed and {share, window, burst, target}
if not head then
  --@include adopt_late
  epoch, target, start, burst, renew, status =
    proposed, sub(ARGV[1], @proposal.target) + 0, 0, sub(ARGV[2], @terms.burst) + 0, true, 2
  window = sub(ARGV[2], @terms.window) + 0
  if sub(ARGV[2], @terms.flags) + 0 >= 2 then
    local lasting, left = lasts(), 0
    --@include adopt_lost
    if left > 0 then
      status, closed_until = 3, now + left
    end
  end
  if status == 2 then
    share = sub(ARGV[1], @proposal.floor) + 0
  end
  begin()
elseif epoch < proposed then
  if share > target and closed_until <= now then -- nobody has looked since it could fall to that
    local least = held()
    if least < target then
      least = target
    end
    if least < share then
      share = least
    end
  end
  epoch, target, start, burst, renew =
    proposed, sub(ARGV[1], @proposal.target) + 0, share, sub(ARGV[2], @terms.burst) + 0, true
  --@include adopt_held
  local was = window
  window = sub(ARGV[2], @terms.window) + 0
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
--@include quarantine
-- In quarantine the state does not tell what is in use, so the share does not rise. It is 0.
if closed == 0 and not as_proposed then
  local bottom = entitled or target
  if share > bottom then
    local least = held()
    if least < bottom then
      least = bottom
    end
    if least < share then
      share = least
    end
    if entitled then
      start = share
    end
  elseif share < target and epoch == proposed then
    local lowest = sub(ARGV[1], @proposal.floor) + 0
    if lowest > target then
      lowest = target
    end
    if share < lowest then
      share = lowest
    end
  end
end
if head and had and (share ~= had[1] or window ~= had[2] or burst ~= had[3] or target ~= had[4]) then
  renew = true
  reshape()
end
