-- One-string algorithms, take, reserve and settle: create the state or adopt what the caller
-- proposes, then move the share.
--
-- A call that comes later than its process may rely on the node being in does nothing. By then
-- others may have taken over what this shard has.
--
-- A newer epoch is adopted, and its window. So are other terms (target, burst), which come with the
-- calls for a key, unless those in force are of a higher revision and for the same window.
--
-- ARGV  1 and 2 the proposal: the time to live is that once unused; the burst with target 0 is 1 if
--       another algorithm takes over
--       3.. the operation's own
--@layout terms
local was_seen, lasting, known, till, left_before, fence, lives = numbers('@terms.form', ARGV[2], 1)
if fence > 0 and time[1] * 1000000 + time[2] > fence then
  return {4, 0, 0, 0, 0, time[1] * 1000000 + time[2], 0, 0, 0, 0, 0, 0, 0, 0}
end
local proposed, asked, came, minimum = epoch, nil, revision, share
if not as_proposed then -- or nothing is: epoch 0
  local e, r, t, w, b, f = match(ARGV[1], '^@MAGIC@LAYOUT$')
  proposed, came, asked, minimum = (e or 0) + 0, (r or 0) + 0, e and {t + 0, w + 0, b + 0}, (f or 0) + 0
end
local status, renew, newer = 1, false, false -- the state must be written; the epoch is newer
local entitled -- what the share falls to; nil: the target
local had = not as_proposed and {share, window, burst, target}
if not head or epoch < proposed then
  -- It would take the caller's word for its epoch and share, so only while that is confirmed. That
  -- holds without a share, too: a floor that is as old would raise it. And it holds of a state that
  -- is behind: it may have begun anew, after a loss, by the word of one who was behind.
  local at = time[1] * 1000000 + time[2]
  if proposed == 0 or at > till then
    return {0, 0, 0, 0, 0, at, 0, 0, 0, 0, 0, 0, 0, 0}
  end
end
if not head then
  epoch, revision, target, window, burst = proposed, came, asked[1], asked[2], asked[3]
  start, renew, status = 0, true, 2
  if closed_until > 0 then -- the quarantine is over
    closed_until = 0
  elseif lasting > 0 then
    local left = 0 -- us for which what was granted last may be in use: from now on
    if was_seen == 1 then
      left = lasting
    elseif known > @SLACK then
      --@include memory
      if not kept then
        return {-1, 2, mark.err}
      elseif done.err then
        return {-2, done.err}
      elseif kept < lasting and known > kept + @SLACK then
        left = lasting - kept
      end
    end
    if left > 0 then
      status, closed_until = 3, now + left
    end
  end
  share = status == 2 and minimum or 0
  begin()
elseif epoch < proposed
  or asked and epoch == proposed and came >= revision and target > 0 and asked[1] > 0 and asked[2] == window
    and (came > revision or target ~= asked[1] or burst ~= asked[3]) then
  if share > target and closed_until <= now then -- nobody has looked since it could fall to that
    share = min(share, max(held(), target))
  end
  local was = window
  newer = epoch < proposed
  if came >= revision or target == 0 or asked[1] == 0 or newer and asked[2] ~= window then
    revision, target, burst = came, asked[1], asked[3]
  end
  renew = true
  if newer then
    epoch, start, window = proposed, share, asked[2]
    -- What an old snapshot brought back, or a shard never gave up, beyond what the layout before
    -- left to the shard, is in force elsewhere now.
    if left_before > 0 and left_before <= target then
      entitled = left_before - 1
    end
  else -- what the other terms had put in force may be in use elsewhere
    entitled = min(target, minimum)
  end
  if window ~= was and regrid then
    regrid(was)
  end
  -- Another algorithm takes over, and does not know what this one let through: until that has left
  -- the window it keeps its share, and grants nothing.
  if share > 0 and target > 0 then
    closed_until = 0
  elseif share > 0 and burst > 0 and ends and (closed_until == 0 or window ~= was) then
    local us = ends()
    closed_until = us > 0 and now + us or 0
  end
end
local most = target > 0 and burst > 0 and burst or target -- permits that can ever be free
local closed = max(closed_until - now, 0) -- what is left of the quarantine, us
-- In quarantine the state does not tell what is in use, so the share, 0, does not rise.
if closed == 0 and not as_proposed then
  local bottom = entitled or target
  if share > bottom then
    share = min(share, max(held(), bottom))
    if entitled and newer then
      start = share
    end
  elseif share < target and epoch == proposed then
    share = max(share, min(minimum, target))
  end
end
if head and had and (share ~= had[1] or window ~= had[2] or burst ~= had[3] or target ~= had[4]) then
  renew = true
  contended = window == had[2] and target < 2 * had[4] and contended or 0 -- what they owe is of another limit
  reshape()
end
