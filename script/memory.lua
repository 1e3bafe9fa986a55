-- Since when the server has its memory: has it forgotten what may still be in use? A new limit and
-- one whose records were lost with the server look the same: then the shard opens at once.
--
-- A key of its own tells since when, and when that was written. A call that creates state writes it
-- again when it is a second old. If the server has it, and has not started since, or very soon
-- after, it has the rest too: its memory came from its own file, or from another server.
-- Gives `kept`, for how long it has it, us, nil if that key is not ours; done.err: a refusal.
local mark, done, kept = redis.pcall('GET', @MEMORY) or '0 0', {}, nil
local whole, seen = string.match(type(mark) == 'string' and mark or '', '^(%d+) (%d+)$')
if seen and #mark <= @MARK_BYTES and whole + 0 <= seen + 0 then
  seen = seen - now <= 1000000 and seen + 0 or 0
  if now - seen > @GAP then
    local info = redis.pcall('INFO', 'server') -- the uptime is a difference of whole seconds, and may not be told
    if type(info) == 'table' and not string.find(info.err, 'not supported', 1, true) then
      done = {err = info.err .. ' (INFO)'} -- it may have started just now
    end
    local up = type(info) == 'string' and string.match(info, 'uptime_in_seconds:(-?%d+)')
    local begun = up and now - math.max(up - 1, 0) * 1000000 or 0
    whole = seen < begun - @GAP and begun or whole
  end
  if not done.err and now - seen >= 1000000 then
    done = redis.pcall('SET', @MEMORY, string.format('%d %d', whole, now), 'PX', '@MARK_LIFE')
  end
  kept = now - whole
end
