--@needs burst calm head sub target
--@sets burst target
-- One-string algorithms: what the calm take of a log does not need.
if calm then
  target, burst = tonumber(sub(head, @packed.target)), tonumber(sub(head, @packed.burst))
  if not (target and burst and burst >= 0 and burst < 1e13) then
    return {-1, 1}
  end
end
