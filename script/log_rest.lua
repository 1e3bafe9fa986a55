-- Logs: reads all entries behind the newest.
local place = base + @log.bytes + dead * @entry.bytes
entries = redis.call('GETRANGE', KEYS[1], format('%d', place), format('%d', place + behind * @entry.bytes - 1))
  .. (tail or '')
tail = false
