--@needs now
--@gives MARK date
-- Take: propose a share, grant permits. A denial that moves neither share nor offset writes nothing
-- to head and log, unless it is time to note that participants contend. What follows here is
-- fair.lua, which grants what is free, slidinglog_enter.lua, and fair_settle.lua.
--
-- ARGV  1, 2 the proposal, as slidinglog_settle.lua says
--       3 the groups of asks and the callers, as fair.lua says
-- Reply as slidinglog_enter.lua makes it, then what slidinglog_taken.lua adds, and while
-- participants contend what fair_settle.lua adds
local date = now
local MARK = '@head.contended.at' -- where in the head `contended` is, from 0
--@include slidinglog_available
