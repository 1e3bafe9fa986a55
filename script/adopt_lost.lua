--@needs lasting sub
--@sets left
-- Take and reserve where there is no state: has the node forgotten what may still be in use? Sets
-- `left`, the us for which it may be; `lasting` is how long what was granted last is.
if sub(ARGV[2], @terms.flags) % 2 == 1 then
  left = lasting
else
  local info = @INFO
  local uptime = type(info) == 'string' and tonumber(string.match(info, 'uptime_in_seconds:(%d+)'))
  if uptime and uptime * 1000000 < lasting and sub(ARGV[2], @terms.known) + 0 > (uptime + 1) * 1000000 then
    left = lasting - uptime * 1000000
  end
end
