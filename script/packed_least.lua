--@needs held target
--@gives least
-- One-string algorithms: what the share comes down to while it is above its target.
local least = held()
if least < target then
  least = target
end
