--@gives blob born epoch now settled status
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
