-- takes = takes + the take of each algorithm + takes_each
-- [takes.lua]
-- Takes, part 1: what the takes of several shards in one call share: the node's clock, and what it
-- says of itself, which costs more than a take and is asked once.
--
-- Each shard is decided as by a call of its own, by the script of its algorithm. That stands
-- between this part and the last one as a function.
local clock, told, said = redis.call('TIME'), nil, nil
local function saved()
  told = told or redis.pcall('LASTSAVE')
  return told
end
local function info()
  said = said or redis.pcall('INFO', 'server')
  return said
end
local take = {} -- by algorithm
take['0'] = function(KEYS, ARGV, state)
  -- what slidinglog_take.lua does, with clock in place of TIME, info() in place of INFO,
  -- saved() in place of LASTSAVE, and state in place of what it reads from KEYS[1]
  return KEYS, ARGV, state, clock, info, saved
end
take['1'] = function(KEYS, ARGV, state)
  -- what slidingcounter_take.lua does, with clock in place of TIME, info() in place of INFO,
  -- saved() in place of LASTSAVE, and state in place of what it reads from KEYS[1]
  return KEYS, ARGV, state, clock, info, saved
end
take['2'] = function(KEYS, ARGV, state)
  -- what fixedwindow_take.lua does, with clock in place of TIME, info() in place of INFO,
  -- saved() in place of LASTSAVE, and state in place of what it reads from KEYS[1]
  return KEYS, ARGV, state, clock, info, saved
end
take['3'] = function(KEYS, ARGV, state)
  -- what tokenbucket_take.lua does, with clock in place of TIME, info() in place of INFO,
  -- saved() in place of LASTSAVE, and state in place of what it reads from KEYS[1]
  return KEYS, ARGV, state, clock, info, saved
end
take['4'] = function(KEYS, ARGV, state)
  -- what leakybucket_take.lua does, with clock in place of TIME, info() in place of INFO,
  -- saved() in place of LASTSAVE, and state in place of what it reads from KEYS[1]
  return KEYS, ARGV, state, clock, info, saved
end
-- [takes_each.lua]
-- Takes, last part: decide for one section after the other.
--
-- KEYS  those of all sections
-- ARGV  1 the sections; then arguments of takes, which sections may have in common
-- section  1 algorithm(1)  2 keys(1)  3 arguments(4)  = 6 bytes
-- Reply: of each section what its take replies, or -6 and what was raised instead. Then the section
-- may have written.
--
-- Shards without state that are asked the same come to the same state, for they share the clock. So
-- the state of the first of them, if all that it was asked for was granted, is written for the
-- others, too.
local sub = string.sub
local sections, replies, key, given = ARGV[1], {}, 0, {}
for at = 1, #sections, 6 do
  local section = sub(sections, at, at + 6 - 1)
  local count, from = sub(section, 2, 2) + 0, sub(section, 3, 6) + 0
  local head, book = KEYS[key + 1], KEYS[key + 2]
  local arguments = given[from]
  if not arguments then
    arguments = {ARGV[from], ARGV[from + 1], ARGV[from + 2]}
    given[from] = arguments
  end
  local state = redis.pcall('GET', head)
  local fresh = not state and arguments[sub(section, 1, 1)]
  local reply
  if fresh and redis.pcall('EXISTS', book, KEYS[key + count]) == 0
    and redis.pcall('SET', head, fresh[1], 'PX', fresh[2]).ok then
    reply = fresh[3]
  else
    local sound
    sound, reply =
      pcall(take[sub(section, 1, 1)], {head, book, count == 3 and KEYS[key + 3] or nil}, arguments, state)
    if not sound then
      reply = {-6, type(reply) == 'table' and reply.err or reply}
    elseif not state and reply[1] == 2 and reply[8] == 0 and at + 6 < #sections then
      local life = redis.pcall('PTTL', head)
      if type(life) == 'number' then -- else the user may not ask
        arguments[sub(section, 1, 1)] = {redis.pcall('GET', head), life, reply}
      end
    end
  end
  key = key + count
  replies[#replies + 1] = reply
end
return replies
