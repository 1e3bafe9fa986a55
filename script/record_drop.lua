-- Drop: delete a limit's record and its participants, if they are ours.
--
-- KEYS  1 record  2 participants
-- Reply status (1 deleted, 0 nothing there, -1 with the number of the foreign key: nothing
-- deleted, -2 with the server's refusal)
local record = redis.call('TYPE', KEYS[1]).ok
if record ~= 'none'
  and (record ~= 'hash' or redis.call('HEXISTS', KEYS[1], 'epoch') + redis.call('HEXISTS', KEYS[1], 'blob') ~= 2) then
  return {-1, 1}
end
local participants = redis.call('TYPE', KEYS[2]).ok
if participants ~= 'none' and participants ~= 'zset' then
  return {-1, 2}
end
local gone = redis.pcall('DEL', unpack(KEYS))
if type(gone) == 'table' then
  return {-2, gone.err}
end
return {gone > 0 and 1 or 0}
