--@needs now proposed sub
-- Take and reserve where there is no state: it would take the caller's word for its share, so only
-- while that is confirmed.
local deadline = proposed > 0 and sub(ARGV[1], @proposal.floor) + 0 > 0 and sub(ARGV[2], @terms.deadline) + 0 or 0
if proposed == 0 or deadline < 0 or (deadline > 0 and now > deadline) then
  return {0, 0, 0, 0, 0, now, 0, 0, 0, 0, 0, 0, 0}
end
