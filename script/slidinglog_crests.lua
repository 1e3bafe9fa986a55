--@needs WRAP as_proposed base before cut format now oldest opened share sub target total used
--@needs window wrote
--@gives crests room
-- What windows hold from now on where something is booked ahead: the one that ends now, and those
-- that end with what is booked. Several bookings may share an entry: then it is what windows hold
-- together that end with any of them. Sets crests, in order of time: the first instant at which it
-- ends, permits in it, permits in the log up to its end; and room, how many more can be granted
-- now: no more than the target leaves while the share is still above it. With too many entries
-- ahead it is one crest that holds all.
--@include slidinglog_rest
local limit = (as_proposed or share < target) and share or target
local crests, room = {{now, used, used}}, limit - used
local coming =
  oldest > 0 and redis.pcall('ZRANGEBYSCORE', KEYS[2], format('(%d', now), '+inf', 'LIMIT', '0', '@MOST_CRESTS') or {}
if coming.err then
  return {wrote and -5 or -1, 2, coming.err}
end
if #coming < @MOST_CRESTS then
  local sound = pcall(function()
    local starts, ends = {now}, {}
    for i, member in ipairs(coming) do
      starts[i + 1], ends[i] = sub(member, @entry.date) - sub(member, @entry.span), sub(member, @entry.before) + 0
    end
    starts[#coming + 2], ends[#coming + 1], ends[#coming + 2] = opened, before, total
    room = limit
    for i, begins in ipairs(starts) do
      local from = base
      if begins - window > cut then
        local member =
          redis.call('ZRANGEBYSCORE', KEYS[2], format('(%d', begins - window), '+inf', 'LIMIT', '0', '1')[1]
        from = member and sub(member, @entry.before) + 0 or before
      end
      local held = (ends[i] - from) % WRAP
      crests[i] = {begins, held, (ends[i] - base) % WRAP}
      if begins - window < now and limit - held < room then
        room = limit - held
      end
    end
  end)
  if not sound then
    return {wrote and -5 or -1, 2}
  end
end
if room < 0 then
  room = 0
end
