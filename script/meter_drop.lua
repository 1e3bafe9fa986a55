--@needs MAGIC
-- One-string algorithms, drop: delete a shard's state and book, if they are ours. Needs no clock.
--
-- Reply status (1 deleted, 0 nothing there, -1 with the number of the foreign key: nothing deleted, -2 with the server's refusal)
local function away(reply) -- a slot on its way tells of a key that is not there only that it is not here
  return string.find(reply.err, 'non local key', 1, true)
end
local head = redis.pcall('GET', KEYS[1])
if head and (type(head) ~= 'string' or string.sub(head, @meter.magic) ~= MAGIC) then
  return {-1, 1, head.err}
end
local book = redis.pcall('GETRANGE', KEYS[2], '0', '@book.kind.end')
if type(book) == 'table' and away(book) then
  book = ''
end
if type(book) ~= 'string' or (book ~= '' and book ~= '@book.kind.form') then
  return {-1, 2, book.err}
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
