-- Take and reserve: a call that comes later than its process may rely on the node being in. By then
-- others may have taken over what this shard has. Nothing is granted, adopted or written.
local fence = sub(ARGV[2], @terms.fence)
if fence ~= '@terms.fence.zero' and time[1] * 1000000 + time[2] > fence + 0 then
  return {4, 0, 0, 0, 0, time[1] * 1000000 + time[2], 0, 0, 0, 0, 0, 0, 0, 0}
end
