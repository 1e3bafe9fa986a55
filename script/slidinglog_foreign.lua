-- Sliding log: there is something where the log belongs, is it a log?
local member = redis.pcall('ZRANGE', KEYS[2], '0', '0')
if member.err or #member[1] ~= @entry.bytes then
  return {-1, 2, member.err}
end
