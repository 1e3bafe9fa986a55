--@needs blob born epoch now settled status
--@sets blob born epoch settled
-- Write a limit's record by compare-and-set on its epoch.
--
-- KEYS  1 record: HASH epoch, settled (0, 1), born (us of this node's clock), blob
-- ARGV  1 expected epoch (0 absent, -1 write if newer)  2 epoch  3 settled  4 time to live ms
--       5 age at birth us  6 blob
-- Reply status (1; -1 with the number of the foreign key; -2 with the server's refusal), written
-- (0, 1), epoch, settled, now us, age us,
--       blob as stored ('' if it is the caller's, or if there is no record: epoch 0)
if status == 0 then
  born = now - ARGV[5]
end
local expected, mine, mine_settled = ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0
local write
if expected == -1 then
  write = mine > epoch or (mine == epoch and mine_settled > settled)
else
  -- What is settled stays settled: a late driver of the same epoch must not undo it.
  write = epoch == expected and (mine > epoch or (mine == epoch and mine_settled >= settled))
end
if write then
  local done =
    redis.pcall('HSET', KEYS[1], 'epoch', ARGV[2], 'settled', ARGV[3], 'born', string.format('%d', born), 'blob',
      ARGV[6])
  if type(done) == 'table' then
    return {-2, done.err}
  end
  redis.call('PEXPIRE', KEYS[1], ARGV[4])
  epoch, settled, blob = mine, mine_settled, ''
end
return {1, write and 1 or 0, epoch, settled, now, now > born and epoch > 0 and now - born or 0, blob}
