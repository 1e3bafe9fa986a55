--@gives clock info saved take
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
