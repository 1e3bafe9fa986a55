-- record_write = record + record_write
-- [record.lua]
-- A limit's record, part 1 of reading and writing it.
--
-- KEYS[1]  record: HASH epoch, settled (0, 1), born (us of this node's clock), blob
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local record = redis.pcall('HMGET', KEYS[1], 'epoch', 'settled', 'born', 'blob')
if record.err then
  return {-1, 1, record.err}
end
local status, epoch, settled, born, blob = 0, 0, 0, now, ''
if record[1] or record[2] or record[3] or record[4] or redis.call('EXISTS', KEYS[1]) == 1 then
  status, epoch, settled = 1, tonumber(record[1] or ''), tonumber(record[2] or '')
  born, blob = tonumber(record[3] or ''), record[4]
  if not (epoch and epoch >= 1 and (settled == 0 or settled == 1) and born and blob) then
    return {-1, 1}
  end
end
-- [record_write.lua]
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
