-- Drop: delete all keys of a shard, if they are ours. Needs no clock, so it stands alone.
--
-- KEYS  1 head  2 log  3 book
-- Reply status (1 deleted, 0 nothing there, -1 with the number of the foreign key: nothing deleted, -2 with the server's refusal)
local head = redis.pcall('GET', KEYS[1])
if head and (type(head) ~= 'string' or #head ~= 249 or string.sub(head, 1, 4) ~= 'SLG2') then
  return {-1, 1}
end
if redis.call('TYPE', KEYS[2]).ok ~= 'none' then
  local member = redis.pcall('ZRANGE', KEYS[2], '0', '0')
  if member.err or #member[1] ~= 42 then
    return {-1, 2}
  end
end
local book = redis.pcall('GETRANGE', KEYS[3], '0', '2')
if type(book) ~= 'string' or (book ~= '' and book ~= 'SLB') then
  return {-1, 3}
end
local gone = redis.pcall('DEL', KEYS[1], KEYS[2], KEYS[3])
if type(gone) == 'table' then
  return {-2, gone.err}
end
return {gone > 0 and 1 or 0}
