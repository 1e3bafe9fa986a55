--@needs TURN as_proposed base before cut format now oldest opened share sub target total used
--@needs window wrote
--@gives crests room
-- What windows hold from now on where something is booked ahead: the one that ends now, and those that end with what is booked. Several bookings may
-- share an entry: then it is what windows hold together that end with any of them. Sets crests, in order of time: the first instant at which it ends,
-- permits in it, permits in the log up to its end; and room, how many more can be granted now: no more than the target leaves while the share is still
-- above it. With too many entries ahead it is one crest that holds all.
--@include slidinglog_rest
local limit = (as_proposed or share < target) and share or target
local crests, room = {{now, used, used}}, limit - used
local later = oldest > 0 and redis.pcall('ZRANGEBYSCORE', KEYS[2], format('(%d', now), '+inf', 'LIMIT', '0', '@MOST_CRESTS') or {}
if later.err then
  return {wrote and -5 or -1, 2, later.err}
end
if #later < @MOST_CRESTS then
  local sound = pcall(function()
    local starts, ends = {now}, {}
    for i, member in ipairs(later) do
      starts[i + 1], ends[i] = sub(member, @entry.date) - sub(member, @entry.span), sub(member, @entry.before) + 0
    end
    starts[#later + 2], ends[#later + 1], ends[#later + 2] = opened, before, total
    room = limit
    for i, start in ipairs(starts) do
      local first = base
      if start - window > cut then
        local member = redis.call('ZRANGEBYSCORE', KEYS[2], format('(%d', start - window), '+inf', 'LIMIT', '0', '1')[1]
        first = member and sub(member, @entry.before) + 0 or before
      end
      local held = (ends[i] - first) % TURN
      crests[i] = {start, held, (ends[i] - base) % TURN}
      if start - window < now and limit - held < room then
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
