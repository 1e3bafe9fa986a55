-- Take, the calm case while participants contend: of one shard, whose log is as its caller believes
-- but for that. The fragment fair.lua decides what it grants.
--
-- ARGV  1 who wants what: see fair.lua  2.. as take.lua has them of one terms
-- As the state has somebody refused, so it has "contended" in front of its columns. The share is
-- the target: else the full take decides.
local contended = sub(state, behind - 17, behind - 2) + 0
if not (contended > 0 and contended <= now and contended + 2 * window > now and room >= 0
  and sub(state, behind - 1, behind - 1) == ';') or room < 1 and (now - contended) * 8 > window then
  break -- the full take notes what changes nothing else
end
local granted, left, refused, told, _, mark = fair(ARGV[1], room, contended, 0, now, window, share, share, false,
  function() return count > 0 and soonest or 0 end)
if not told then
  break
end
n = granted
