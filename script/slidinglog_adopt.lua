--@needs as_proposed epoch format head now queue share sub target window
--@sets before closed_until entries epoch opened queue start target window
--@gives cut discard entitled lasting left proposed renew rewrite status
-- Sliding log, take only, between load and trim: create the state, or adopt the caller's newer
-- epoch.
local proposed = as_proposed and epoch or sub(ARGV[1], @proposal.epoch) + 0
local status = 1
local renew, rewrite = false, false -- write the whole head, with a new time to live or keeping it
local discard = false               -- the log is the remains of a lost state
local span = window
local entitled -- nil: the target
if not head then
  --@include adopt_late
  start, entries, opened, before = 0, 0, now, 0
  window = sub(ARGV[2], @terms.window) + 0
  discard = redis.call('TYPE', KEYS[2]).ok ~= 'none'
  if discard then
    --@include slidinglog_foreign
  end
  status = 2
  if sub(ARGV[2], @terms.flags) + 0 >= 2 then
    local lasting, left = window, 0
    if discard then
      left = window
    else
      --@include adopt_lost
    end
    if left > 0 then
      status, closed_until = 3, now + left
    end
  end
  epoch, target, span, renew = proposed, sub(ARGV[1], @proposal.target) + 0, window, true
elseif epoch < proposed then
  if share > target then -- nobody has looked since it could fall to that
    entitled = target
  end
  epoch, target, start, renew = proposed, sub(ARGV[1], @proposal.target) + 0, share, true
  window = sub(ARGV[2], @terms.window) + 0
  if window < span then
    span = window
    local baseless = ''
    for from = 1, #queue, @pending.bytes do
      baseless = baseless .. sub(queue, @pending.date..permits[from]) .. format('@pending.base.form', -1)
    end
    queue = baseless
  end
  --@include adopt_held
end
-- What left the old window stays forgotten, what leaves the new one is forgotten now.
local cut = now - span
