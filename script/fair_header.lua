--@needs sub
--@gives header
-- Fairness: reads the header of the book, '' where there is none or one of another version, which
-- is thrown away.
local header = redis.pcall('GETRANGE', KEYS[#KEYS], '0', '@book.weights.end')
if type(header) ~= 'string' or (header ~= '' and sub(header, @book.kind) ~= '@book.kind.form') then
  return {-1, #KEYS, header.err}
end
if sub(header, @book.version) ~= '@book.version.form' then
  header = ''
end
