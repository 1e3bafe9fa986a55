-- One-string algorithms, take: what can be granted. A denial that moves neither share nor offset
-- writes nothing to the state, unless it is time to note that participants contend. fair.lua
-- follows, which grants it, then packed_grant.lua, packed_reply.lua and fair_settle.lua.
--
-- ARGV  3 the groups of asks and the callers, as fair.lua says
-- Reply as packed_reply.lua makes it, then what packed_taken.lua or leakybucket_taken.lua adds,
-- and while participants contend what fair_settle.lua adds
local available = closed == 0 and free() or 0
