--@needs closed_until now sub window
--@gives dated permits reminded
-- Remind: what the process was granted that the shard forgot.
--
-- ARGV  1 closed_until of the loss of which the caller has reminded the shard before; until a
--       bucket is full again us, and the share, the window and closed_until when that was heard;
--       then of each grant, in the order of their dates: closed_until when it was granted, the age
--       of its date us, below zero if that is ahead, and permits
--@layout reminder
--@layout granted
-- Reply status, closed_until, permits that were entered
--
-- What was granted under another closed_until, was so before the loss. Ages grow on the way, so
-- dates become later and never earlier.
local reminded = closed_until > 0 and closed_until ~= sub(ARGV[1], @reminder.known) + 0
local dated, permits = {}, {}
if reminded then
  for from = @reminder.grants.from, #ARGV[1], @granted.bytes do
    local at = now - sub(ARGV[1], @granted.age[from])
    if sub(ARGV[1], @granted.under[from]) + 0 ~= closed_until and at > now - window then
      dated[#dated + 1], permits[#dated + 1] = at, sub(ARGV[1], @granted.permits[from]) + 0
    end
  end
end
