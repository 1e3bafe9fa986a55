-- One-string algorithms, take, after the grants are known: book them.
local delay, delay_part, retry_in = 0, 0, 0
if granted > 0 then
  if pace then
    delay, delay_part = pace()
  end
  grant(granted)
  renew = true
end
if refused then
  retry_in = retry(refused)
  if closed > 0 then
    retry_in = refused <= most and closed or -1
  end
end
local at = now
