--@needs format offset
-- The clock went back: what makes up for it is stored, under every algorithm in the same place.
local done = redis.pcall('SETRANGE', KEYS[1], '@packed.offset.at', format('@packed.offset.form', offset))
if type(done) == 'table' then
  return {-2, done.err}
end
