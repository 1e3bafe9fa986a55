--@needs away
-- Drop, once the state is known to be ours: deletes all keys of a shard, if the book is ours, too.
--
-- Reply status (1 deleted, 0 nothing there, -1 with the number of the foreign key: nothing deleted,
--       -2 with the server's refusal)
local book = redis.pcall('GETRANGE', KEYS[#KEYS], '0', '@book.kind.end')
if type(book) == 'table' and away(book) then
  book = ''
end
if type(book) ~= 'string' or (book ~= '' and book ~= '@book.kind.form') then
  return {-1, #KEYS, book.err}
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
