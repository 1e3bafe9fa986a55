-- fewer = fewer
-- [fewer.lua]
-- Fewer keys: put before any operation on a shard whose slot is on its way. A server then serves
-- a call with several keys only if all of them are there, so only those are declared that exist.
--
-- KEYS  the first keys of the shard, as many as are declared
-- ARGV  as the operation wants them, then the names of all keys, how many they are, and
--       1 if the log is known not to be anywhere, else 0
-- Reply -3 if the log is elsewhere, -4 if that has to be found out. Nothing was written then.
-- A log may have expired before the head: when all that the head counts in it has left the window.
do
  local last = #ARGV
  local all, nowhere = ARGV[last - 1] + 0, ARGV[last] == '1'
  if all == 3 and #KEYS == 1 then
    -- What the head counts is in the log. Where that is not declared, its being missing tells
    -- nothing.
    local head, time = redis.pcall('GET', KEYS[1]), redis.call('TIME')
    local counts =
      type(head) == 'string' and #head == 249 and string.sub(head, 121, 124) ~= '   0'
    if counts then
      local newest, window, offset =
        tonumber(string.sub(head, 187, 202)), tonumber(string.sub(head, 60, 72)),
          tonumber(string.sub(head, 89, 104))
      if not (newest and window and offset) or newest + window > time[1] * 1000000 + time[2] + offset then
        return {-3}
      end
    end
    if (counts or not head) and not nowhere then
      return {-4}
    end
  end
  for i = 1, all do
    KEYS[i] = ARGV[last - 2 - all + i]
  end
  for i = last, last - 1 - all, -1 do
    ARGV[i] = nil
  end
end
