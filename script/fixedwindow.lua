--@needs TAKES as_proposed floor format head now share sub target window
--@sets begin book earliest falls held lasts overdraw refund regrid releases reshape
--@gives advance free grant parse reset retry soonest text used
-- Fixed window: at most `share` permits in each window of the shard's clock; windows begin at
-- multiples of their length.
--
-- Its own columns: when the window began; what was granted before `since` is forgotten; permits
-- granted in the window, and reserved in the next.
--@layout windows
local opened, since, count, later = 0, 0, 0, 0

local function parse(state)
  opened, since, count, later =
    sub(state, @windows.opened) + 0, sub(state, @windows.since) + 0, sub(state, @windows.count) + 0,
      sub(state, @windows.later) + 0
  return #state == @windows.bytes and opened < 1e16 and since < 1e16 and count >= 0 and count < 1e13 and later >= 0
    and later < 1e13
end

local function text()
  return format('@windows.form', opened, since, count, later)
end

local function advance()
  local passed = floor((now - opened) / window)
  if passed > 0 then
    opened = opened + passed * window
    since, count, later = opened, passed == 1 and later or 0, 0
  end
end

local function used()
  return count + later
end

-- A share still above its target, because of what is booked in a later window, leaves no more than
-- the target does.
local function free()
  local most = share < target and share or target
  return count < most and most - count or 0
end

local function grant(n)
  count = count + n
end

local function reset()
  return later > 0 and opened + 2 * window - now or count > 0 and opened + window - now or 0
end

local function retry(n)
  local most = share < target and share or target
  if n > most then
    return -1
  end
  return count + n <= most and 0 or opened + (later + n <= most and 1 or 2) * window - now
end

local function soonest()
  if used() == 0 then
    return 0
  end
  local us = free() > 0 and opened + window - now or retry(1)
  return us < 0 and reset() or us
end

if not as_proposed then
  function falls()
    return opened + window - now
  end

  local function opening()
    return now - now % window
  end

  -- The first window, or nothing in the one that is.
  function begin()
    if not head then
      opened = opening()
    end
    since, count, later = now, 0, 0
  end

  -- What was counted stays counted, in the window that now holds the beginning of the one in which
  -- it was.
  function regrid(was)
    local had, next_had, from = count, later, opened
    opened, count, later = opening(), 0, 0
    for i, n in ipairs({had, next_had}) do
      if floor((from + (i - 1) * was - opened) / window) > 0 then
        later = later + n
      else
        count = count + n
      end
    end
  end

  function reshape()
  end

  function lasts()
    return window
  end

  function held()
    return count > later and count or later
  end
end

if not TAKES then
  -- How many of n permits make a difference: with the share, nothing is free in this window.
  function overdraw(n)
    local most = share < target and target or share
    if most > @MOST_USED - count then
      most = @MOST_USED - count
    end
    return n < most and n or most > 0 and most or 0
  end

  function refund(n, at)
    local i = floor((at - opened) / window)
    if at < since or i < 0 or i > 1 then
      return 0
    end
    local counted = i > 0 and later or count
    if n > counted then
      n = counted
    end
    if i > 0 then
      later = later - n
    else
      count = count - n
    end
    return n
  end

  function earliest(n, after)
    if after == 0 and n <= free() then
      return 0, true
    end
    local most, i = share < target and share or target, floor((now + after - opened) / window)
    if n > most then
      return -1, false
    end
    if i == 0 and count + n > most then
      i = 1
    end
    if i == 1 and later + n > most then
      i = 2
    end
    local us = opened + i * window - now
    return us < after and after or us, true
  end

  function book(n, us)
    if floor((now + us - opened) / window) > 0 then
      later = later + n
    else
      count = count + n
    end
    return now + us
  end

  function releases(reply)
    if count > 0 then
      reply[#reply + 1] = opened + window - now
      reply[#reply + 1] = count
    end
    if later > 0 then
      reply[#reply + 1] = opened + 2 * window - now
      reply[#reply + 1] = later
    end
  end
end
