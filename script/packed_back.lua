-- One-string algorithms, settle: give back permits of the grant made at `at`, or charge permits.
local refunded = back > 0 and refund(back, ARGV[4] + 0) or 0
if refunded > 0 and (ARGV[8] ~= '0' or ARGV[4] + 0 > now) then
  returned = now -- not what a call gave back that came to nothing
end
local available, granted, retry_in, at = closed > 0 and 0 or free(), 0, 0, now
if charge > 0 and closed == 0 then
  granted = overdraw(charge, ARGV[6] + 0)
  if granted > 0 then
    grant(granted)
    renew = true
  end
end
if refunded > 0 and not renew then
  --@include packed_store
end
