--@needs closed grant granted most now pace receipt refused retry
--@sets renew
--@gives at delay part wait
-- One-string algorithms, take, after the grants are known: book them.
local delay, part, wait = 0, 0, 0
if granted > 0 then
  if pace then
    delay, part = pace()
  end
  grant(granted)
  renew = true
end
if refused then
  wait = retry(refused)
  if closed > 0 then
    wait = refused <= most and closed or -1
  end
end
local at = receipt and receipt() or now
