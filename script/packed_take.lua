-- One-string algorithms, take. A denial that moves neither share nor offset writes nothing to the
-- state, unless it is time to note that participants contend.
--
-- ARGV  3 the groups of asks and the callers, as fair.lua says
-- Reply as packed_reply.lua makes it; whether the next call had better come here at once; of a
--       leaky bucket when the permits act: delay of the first us + a part of a us over share,
--       window us; and while participants contend how many of each group were granted, and after
--       how many us each caller should come back
local available = closed == 0 and free() or 0
local granted, left, refused, told, begun, mark, damaged = fair(ARGV[3], available, contended, closed, now, window,
  share, target, booked, soonest)
if not granted then
  return left
elseif mark then
  contended, remark = mark, true
end
local delay, delay_part, retry_in, at = 0, 0, 0, now
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
--@include packed_reply
reply[@take.rare] = (not as_proposed or sign == ':' or booked or begun or told) and 1 or 0
if pace then
  reply[@take.delay], reply[@take.part], reply[@take.window] = delay, delay_part, window
end
-- The ledger lives for a little more than two windows.
if begun or damaged then
  redis.pcall('DEL', KEYS[#KEYS])
elseif told then
  for i = 1, #told do
    reply[#reply + 1] = told[i]
  end
  if mark then
    redis.pcall('PEXPIRE', KEYS[#KEYS], @LIFE)
  end
end
return reply
