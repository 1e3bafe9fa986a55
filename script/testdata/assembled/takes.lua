-- takes = takes + the take of each algorithm + takes_each
-- [takes.lua]
-- Takes, part 1: what the takes of several shards in one call share: the node's clock, and what it
-- says of itself, which costs more than a take and is asked once.
--
-- Each shard is decided as by a call of its own, by the script of its algorithm. That stands
-- between this part and the last one as a function.
local clock, said = redis.call('TIME'), nil
local function info()
  said = said or redis.pcall('INFO', 'server')
  return said
end
local take = {} -- by algorithm
take['0'] = function(KEYS, ARGV)
  -- what slidinglog_take.lua does, with clock in place of TIME and info() in place of INFO
  return KEYS, ARGV, clock, info
end
take['1'] = function(KEYS, ARGV)
  -- what slidingcounter_take.lua does, with clock in place of TIME and info() in place of INFO
  return KEYS, ARGV, clock, info
end
take['2'] = function(KEYS, ARGV)
  -- what fixedwindow_take.lua does, with clock in place of TIME and info() in place of INFO
  return KEYS, ARGV, clock, info
end
take['3'] = function(KEYS, ARGV)
  -- what tokenbucket_take.lua does, with clock in place of TIME and info() in place of INFO
  return KEYS, ARGV, clock, info
end
take['4'] = function(KEYS, ARGV)
  -- what leakybucket_take.lua does, with clock in place of TIME and info() in place of INFO
  return KEYS, ARGV, clock, info
end
-- [takes_each.lua]
-- Takes, last part: decide for one section after the other.
--
-- KEYS  those of all sections
-- ARGV  1 the sections; then arguments of takes, which sections may have in common
-- section  1 algorithm(1)  2 keys(1)  3 arguments(4)  = 6 bytes
-- Reply: of each section what its take replies, or -6 and what was raised instead. Then the section
-- may have written.
local sub = string.sub
local sections, replies, key, given = ARGV[1], {}, 0, {}
for at = 1, #sections, 6 do
  local section = sub(sections, at, at + 6 - 1)
  local count, from = sub(section, 2, 2) + 0, sub(section, 3, 6) + 0
  local keys = {KEYS[key + 1], KEYS[key + 2], count == 3 and KEYS[key + 3] or nil}
  key = key + count
  local arguments = given[from]
  if not arguments then
    arguments = {ARGV[from], ARGV[from + 1], ARGV[from + 2]}
    given[from] = arguments
  end
  local sound, reply = pcall(take[sub(section, 1, 1)], keys, arguments)
  replies[#replies + 1] = sound and reply or {-6, type(reply) == 'table' and reply.err or reply}
end
return replies
