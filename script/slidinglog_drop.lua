-- Drop: delete all keys of a shard, if they are ours. Needs no clock, so it stands alone.
--
-- KEYS  1 head  2 log  3 book
-- Reply status (1 deleted, 0 nothing there, -1 with the number of the foreign key: nothing deleted, -2 with the server's refusal)
local function away(reply) -- a slot on its way tells of a key that is not there only that it is not here
  return string.find(reply.err, 'non local key', 1, true)
end
local head = redis.pcall('GET', KEYS[1])
if head and (type(head) ~= 'string' or #head ~= @head.bytes or string.sub(head, @head.magic) ~= '@head.magic.form') then
  return {-1, 1, head.err}
end
local kind = redis.pcall('TYPE', KEYS[2])
if kind.err and not away(kind) then
  return {-1, 2, kind.err}
end
if kind.ok and kind.ok ~= 'none' then
  local member = redis.pcall('ZRANGE', KEYS[2], '0', '0')
  if member.err or #member[1] ~= @entry.bytes then
    return {-1, 2, member.err}
  end
end
local book = redis.pcall('GETRANGE', KEYS[3], '0', '@book.kind.end')
if type(book) == 'table' and away(book) then
  book = ''
end
if type(book) ~= 'string' or (book ~= '' and book ~= '@book.kind.form') then
  return {-1, 3, book.err}
end
local gone = 0
for _, key in ipairs(KEYS) do
  local done = redis.pcall('DEL', key)
  if type(done) ~= 'table' then
    gone = gone + done
  elseif not away(done) then
    return {-2, done.err}
  end
end
return {gone > 0 and 1 or 0}
