--@needs ends take
-- Takes, last part: decide for one section after the other.
--
-- KEYS  those of all sections
-- ARGV  1 the sections; then arguments of takes, which sections may have in common
--@layout section
-- Reply: of each section what its take replies, or -6 and what was raised instead. Then the section
-- may have written.
--
-- Shards without state that are asked the same come to the same state, for they share the clock. So
-- the state of the first of them, if all that it was asked for was granted, is written for the
-- others, too.
local sub = string.sub
local sections, replies, key, given = ARGV[1], {}, 0, {}
for at = 1, #sections, @section.bytes do
  local section = sub(sections, at, at + @section.bytes - 1)
  local count, from = sub(section, @section.keys) + 0, sub(section, @section.arguments) + 0
  local head, book = KEYS[key + 1], KEYS[key + 2]
  local arguments = given[from]
  if not arguments then
    arguments = {ARGV[from], ARGV[from + 1], ARGV[from + 2]}
    given[from] = arguments
  end
  local state = redis.pcall('GETRANGE', head, '0', ends[sub(section, @section.algorithm)] or '-1')
  if state == '' then
    state = nil
  end
  local fresh = not state and arguments[sub(section, @section.algorithm)]
  local reply
  if fresh and redis.pcall('EXISTS', book) == 0
    and redis.pcall('SET', head, fresh[1], 'PX', fresh[2]).ok then
    reply = fresh[3]
  else
    local sound
    sound, reply =
      pcall(take[sub(section, @section.algorithm)], {head, book}, arguments, state)
    if not sound then
      reply = {-6, type(reply) == 'table' and reply.err or reply}
    elseif not state and reply[1] == 2 and reply[@reply.retry] == 0 and at + @section.bytes < #sections then
      local life = redis.pcall('PTTL', head)
      if type(life) == 'number' then -- else the user may not ask
        arguments[sub(section, @section.algorithm)] = {redis.pcall('GET', head), life, reply}
      end
    end
  end
  key = key + count
  replies[#replies + 1] = reply
end
return replies
