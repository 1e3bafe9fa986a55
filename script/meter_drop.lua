-- One-string algorithms, drop: delete a shard's state and book, if they are ours. Needs no clock.
--
-- Reply status (1 deleted, 0 nothing there, -1 with the number of the foreign key: nothing deleted, -2 with the server's refusal)
local head = redis.pcall('GET', KEYS[1])
if head and (type(head) ~= 'string' or string.sub(head, 1, 4) ~= MAGIC) then
  return {-1, 1}
end
local book = redis.pcall('GETRANGE', KEYS[2], '0', '2')
if type(book) ~= 'string' or (book ~= '' and book ~= 'SLB') then
  return {-1, 2}
end
local gone = redis.pcall('DEL', KEYS[1], KEYS[2])
if type(gone) == 'table' then
  return {-2, gone.err}
end
return {gone > 0 and 1 or 0}
