-- One-string algorithms, clear: forget usage; epoch, share, window and the time to live stay. Of a
-- quarantine a little stays: else who believes in what was before the loss would raise the share.
-- Creates nothing.
--
-- Reply status (1 cleared, 0 nothing there)
if not head then
  return {0}
end
share, closed_until, contended = min(share, target), min(closed_until, now + @LIFTED_AFTER), 0
begin()
-- Takes tell by `touched` whether the time to live was set in this sixteenth of a window.
local life = max(redis.call('PTTL', KEYS[1]), ceil(window / 500))
local done = store(life)
return type(done) == 'table' and done.err and {-2, done.err} or {1}
