-- One-string algorithms, peek: what a take that asks for nothing would find. Writes nothing,
-- creates nothing.
--
-- Reply status, epoch, target, share, start, used, window us, quarantine left us, reset us, free,
-- then in us, permits of each release, oldest first: at most 32,
--       neighbours merged into the later one
if not head then
  return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
end
local closed = max(closed_until - now, 0)
local least = closed == 0 and max(held(), target) or share
if least < share then
  share = least
  reshape()
end
local reply = {1, epoch, target, share, start, used(), window, share == 0 and closed or 0,
  max(reset(), closed), closed > 0 and 0 or free()}
if closed == 0 then
  releases(reply)
end
return reply
