--@needs before entries head newest opened start sub
--@sets before entries opened start
-- What of the head neither a merge nor a denial needs if all is as proposed: read where it is
-- needed, before anything is written.
if not start then
  start, before = tonumber(sub(head, @head.start)), before or tonumber(sub(head, @head.before))
  entries, opened = entries or tonumber(sub(head, @head.entries)), opened or tonumber(sub(head, @head.opened))
  if not (start and before and entries and opened and opened <= newest) then
    return {-1, 1}
  end
end
