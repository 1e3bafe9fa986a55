--@needs lasting sub time
--@sets left
-- Take and reserve with quarantine where there is no state: has the node forgotten what may still
-- be in use? Sets `left`, the us for which it may be; `lasting` is how long what was granted last
-- is.
--
-- A new limit and one whose records were lost with the node look the same. The shard opens at once.
--
-- A server counts its start as a save. So it is up at least since it saved last, and to ask that
-- costs next to nothing.
if sub(ARGV[2], @terms.flags) % 2 == 1 then
  left = lasting
else
  local saved, known = @SAVED, sub(ARGV[2], @terms.known) + 0
  local up = type(saved) == 'number' and saved > 0 and time[1] - saved or 0 -- 0, or less: it never did
  if up * 1000000 < lasting and known > (up + 1) * 1000000 then
    local info = @INFO
    local uptime = type(info) == 'string' and tonumber(string.match(info, 'uptime_in_seconds:(%d+)'))
    if uptime and uptime * 1000000 < lasting and known > (uptime + 1) * 1000000 then
      left = lasting - uptime * 1000000
    end
  end
end
