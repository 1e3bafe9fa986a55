--@needs sub target
--@sets entitled
-- Take and reserve that adopt a newer epoch: sets `entitled`, what the share falls to, if that is
-- less than the target. What an old snapshot brought back, or a shard never gave up, beyond what
-- the layout before left to the shard, is in force elsewhere now.
local kept = sub(ARGV[2], @terms.held) + 0
if kept >= 0 and kept < target then
  entitled = kept
end
