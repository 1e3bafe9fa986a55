-- One-string algorithms, take, reserve and settle, at the end: store the state if it must be, and
-- make `reply`: status, start, free before, granted, used, what settle needs, next us, retry us (-1
-- never), reset us, quarantine left us, epoch, target, share, whether permits came back early in
-- the last window
local again = reset()
if renew or stepped or remark then
  local slice, life = window / 16, nil
  -- Else it was set in this sixteenth of a window: it is long enough.
  if renew and not (as_proposed and closed == 0 and again <= window
    and now - now % slice == touched - touched % slice) then
    -- Who is behind does not know how long a shard that was left is to be remembered.
    life = max(proposed == epoch and 0 or redis.call('PTTL', KEYS[1]),
      ceil(min(max(again, closed, window), @MAX_FILL) / 1000) + max(lives, ceil(window / 500)))
  end
  local done = store(life)
  if type(done) == 'table' and done.err and (renew or stepped) then -- else it harms fairness only
    return {-2, done.err}
  end
end

local next_us = soonest()
if closed > 0 then
  next_us, again = closed, max(again, closed)
end
local reply = {status, start, available, granted, used(), at, next_us, retry_in, again,
  share == 0 and closed or 0, epoch, target, share, returned > now - window and 1 or 0}
