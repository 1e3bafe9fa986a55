--@gives clock take
-- Takes, part 1: what the takes of several shards in one call share: the node's clock.
--
-- Each shard is decided as by a call of its own, by the script of its algorithm. That stands
-- between this part and the last one as a function.
local clock = redis.call('TIME')
local take = {} -- by algorithm
