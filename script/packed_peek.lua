--@needs beside closed epoch free head least releases reset reshape share start target used window
--@sets share
-- One-string algorithms, peek: what a take that asks for nothing would find. Writes nothing,
-- creates nothing.
--
-- Reply status, epoch, target, share, start, used, window us, quarantine left us, reset us, free,
-- number of loads (0: what the releases leave),
--       then in us, permits of each load: what stands beside takes from then on, at most 9 then in
--       us, permits of each release, oldest first: at most 32, neighbours merged into the later one
if not head then
  return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
end
--@include quarantine
if share > target and closed == 0 then
  --@include packed_least
  if least < share then
    share = least
    reshape()
  end
end
local again = reset()
if again < closed then
  again = closed
end
local reply = {1, epoch, target, share, start, used(), window, closed, again, closed > 0 and 0 or free(), 0}
if beside then
  beside(reply)
  reply[@peek.loads] = (#reply - @peek.loads) / 2
end
releases(reply)
return reply
