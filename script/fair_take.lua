--@needs contending granted left now refused room state sub t
--@sets n
--@gives MARK as_proposed available closed contended share target window
-- Take, the calm case while participants contend: of one shard, whose log is as its caller believes
-- but for that. What it grants is decided by fair.lua.
--
-- ARGV  1 to 3 as the full take has them: see fair.lua  4.. as take.lua has them of one terms
local MARK = '@packed.contended.at'
local contended, available, window = sub(state, @packed.contended) + 0, room, t.window
local share, target, as_proposed, closed = t.share, t.share, true, 0
if not (contended > 0 and contended <= now and contended + 2 * window > now and room >= 0) then
  break
end
--@include fair
if not contending or refused and refused > 1 and refused > left then
  break -- the full take knows when as many come back
end
n = granted
