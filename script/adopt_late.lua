--@needs now proposed sub
-- Take and reserve where there is no state: it would take the caller's word for its epoch and
-- share, so only while that is confirmed. That holds without a share, too: a floor that is as old
-- would raise it.
local deadline = proposed > 0 and sub(ARGV[2], @terms.deadline) + 0 or 0
if proposed == 0 or deadline < 0 or (deadline > 0 and now > deadline) then
  return {0, 0, 0, 0, 0, now, 0, 0, 0, 0, 0, 0, 0}
end
