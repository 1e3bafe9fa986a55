--@needs as_proposed epoch head now share sub window
--@sets before closed_until entries epoch opened start target window
--@gives cut discard proposed renew rewrite status
-- Sliding log, take only, between load and trim: create the state, or adopt the caller's newer epoch.
local proposed = as_proposed and epoch or sub(ARGV[1], @proposal.epoch) + 0
local status = 1
local renew, rewrite = false, false -- write the whole head, with a new time to live or keeping it
local discard = false               -- the log is the remains of a lost state
local span = window
if not head then
  -- A state that does not exist would take the caller's word for its share: only while that is confirmed.
  local deadline = proposed > 0 and sub(ARGV[1], @proposal.floor) + 0 > 0 and sub(ARGV[2], @terms.deadline) + 0 or 0
  if proposed == 0 or deadline < 0 or (deadline > 0 and now > deadline) then
    return {0, 0, 0, 0, 0, now, 0, 0, 0, 0, 0, 0, 0}
  end
  local left = 0 -- microseconds for which permits of a forgotten log may still be in use
  start, entries, opened, before = 0, 0, now, 0
  window = sub(ARGV[2], @terms.window) + 0
  discard = redis.call('TYPE', KEYS[2]).ok ~= 'none'
  if discard then
    local member = redis.pcall('ZRANGE', KEYS[2], '0', '0')
    if member.err or #member[1] ~= @entry.bytes then
      return {-1, 2, member.err}
    end
  end
  if discard or sub(ARGV[2], @terms.flags) % 2 == 1 then
    left = window
  else
    local info = redis.pcall('INFO', 'server')
    local uptime = type(info) == 'string' and tonumber(string.match(info, 'uptime_in_seconds:(%d+)'))
    if uptime and uptime * 1000000 < window and sub(ARGV[2], @terms.known) + 0 > (uptime + 1) * 1000000 then
      left = window - uptime * 1000000
    end
  end
  status = 2
  if left > 0 and sub(ARGV[2], @terms.flags) + 0 >= 2 then
    status = 3
    closed_until = now + left
  end
  epoch, target, span, renew = proposed, sub(ARGV[1], @proposal.target) + 0, window, true
elseif epoch < proposed then
  epoch, target, start, renew = proposed, sub(ARGV[1], @proposal.target) + 0, share, true
  window = sub(ARGV[2], @terms.window) + 0
  if window < span then
    span = window
  end
end
-- What left the old window stays forgotten, what leaves the new one is forgotten now.
local cut = now - span
