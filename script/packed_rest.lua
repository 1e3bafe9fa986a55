--@needs epoch head revision start sub
--@sets epoch revision start
-- One-string algorithms: what of the string few calls need if all is as proposed, read where it is
-- needed, before anything is written.
if not start then
  epoch, revision, start =
    tonumber(sub(head, @packed.epoch)), tonumber(sub(head, @packed.revision)), tonumber(sub(head, @packed.start))
  if not (epoch and revision and start) then
    return {-1, 1}
  end
end
