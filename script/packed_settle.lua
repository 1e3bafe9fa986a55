-- One-string algorithms, settle: give back permits of the grant made at `at`, or charge permits; or
-- do nothing if that was done before. The mark goes first, because a server that refuses it refuses
-- everything.
--
-- ARGV  1, 2 the proposal, as packed_adopt.lua says; of epoch 0 unless there is a charge
--       3 permits that come back of the grant made  4 at
--       5 permits that are charged  6 us: after how long a bucket must be full again
--       7 what was used  8 ms: how long the mark KEYS[#KEYS-1] is kept; 0: there is none
--       9, 10 of whom: see fair_used.lua
-- Reply as a take makes it that asks for nothing, `granted` being what was charged; then permits
-- that came back, and whether it was settled before: 0 no, 1 with the same use, 2 with another
local back, charge, repeated = ARGV[3] + 0, ARGV[5] + 0, 0
if ARGV[8] ~= '0' then
  local marked = redis.pcall('SET', KEYS[#KEYS - 1], ARGV[7], 'NX', 'PX', ARGV[8])
  if not marked then
    back, charge = 0, 0
    repeated = redis.pcall('GET', KEYS[#KEYS - 1]) == ARGV[7] and 1 or 2
  elseif marked.err then
    return {-2, marked.err}
  end
end
local refunded = back > 0 and refund(back, ARGV[4] + 0) or 0
if refunded > 0 then
  renew = true
  if ARGV[8] ~= '0' or (pace or not ARGV[9]) and ARGV[4] + 0 > now then
    returned = now -- not what a call gave back that came to nothing
  end
end
local available, granted, retry_in, at = closed > 0 and 0 or free(), 0, 0, now
if charge > 0 and closed == 0 then
  granted = overdraw(charge, ARGV[6] + 0)
  if granted > 0 then
    grant(granted)
    renew = true
  end
end
--@include packed_reply
reply[@settle.back], reply[@settle.repeated] = refunded, repeated
--@include fair_used
return reply
