--@gives beliefs clock state
-- Logs, take: reads the clock and the string, first of all. A call for several shards has read
-- them.
local clock = redis.call('TIME')
local state = redis.pcall('GETRANGE', KEYS[1], '0', '@READ_END')
local beliefs = {} -- see log_calm.lua
