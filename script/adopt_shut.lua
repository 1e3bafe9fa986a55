--@needs left sub window
--@sets left
-- Take and reserve after a loss: if processes remind the shard of what it forgot, it stays shut
-- only until they had the time to.
if sub(ARGV[2], @terms.flags) + 0 >= 4 then
  local listens = math.floor(window / @LISTEN_PART)
  if listens > @LISTEN_MOST then
    listens = @LISTEN_MOST
  end
  if left > listens then
    left = listens
  end
end
