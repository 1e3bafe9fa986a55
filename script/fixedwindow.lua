--@needs TAKES as_proposed booked find floor format head now share sub target window
--@sets begin beside book booked earliest falls held lasts overdraw refund regrid releases reshape
--@sets retire shifted
--@gives advance free grant parse reset retry soonest text used
-- Fixed window: at most `share` permits in each window of the shard's clock; windows begin at
-- multiples of their length and an edge that comes with the proposal. What is stored tells it: a
-- window began there.
--
-- Its own columns: when the window began; what was granted before `since` is forgotten; permits
-- granted in the window, and reserved in each of the next seven, which is blank if nothing is.
--@layout windows
local opened, since, counts = 0, 0, {0, 0, 0, 0, 0, 0, 0, 0}
local reserved = false -- something is reserved in a later window
local BLANK = '@windows.later.blank'

local function parse(state)
  opened, since, counts[1] =
    sub(state, @windows.opened) + 0, sub(state, @windows.since) + 0, sub(state, @windows.count) + 0
  if find(state, BLANK, @windows.later.from, true) ~= @windows.later.from then
    reserved = true
    for i = 2, 8 do
      counts[i] = sub(state, @windows.count..later#i) + 0
      if not (counts[i] >= 0 and counts[i] < 1e13) then
        return false
      end
    end
  end
  return #state == @windows.bytes and opened < 1e16 and since < 1e16 and counts[1] >= 0 and counts[1] < 1e13
end

local function text()
  if not reserved then
    return format('@windows.opened..count.form', opened, since, counts[1]) .. BLANK
  end
  return format('@windows.form', opened, since, unpack(counts))
end

local function advance()
  local passed = floor((now - opened) / window)
  if passed <= 0 then
    return
  end
  opened = opened + passed * window
  since = opened
  if not reserved then
    counts[1] = 0
    return
  end
  reserved = false
  for i = 1, 8 do
    counts[i] = counts[i + passed] or 0
    reserved = reserved or i > 1 and counts[i] > 0
  end
end

local function used()
  return counts[1]
end

-- A share still above its target, because of what is booked in a later window, leaves no more than
-- the target does.
local function free()
  local most = share < target and share or target
  return counts[1] < most and most - counts[1] or 0
end

local function grant(n)
  counts[1] = counts[1] + n
end

local function reset()
  for i = 8, 1, -1 do
    if counts[i] > 0 then
      return opened + i * window - now
    end
  end
  return 0
end

local function retry(n)
  local most = share < target and share or target
  if n > most then
    return -1
  end
  local i = 1
  while i <= 8 and counts[i] + n > most do
    i = i + 1
  end
  return i > 1 and opened + (i - 1) * window - now or 0
end

local function soonest()
  if counts[1] == 0 then
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
    return now - (now - sub(ARGV[2], @terms.edge)) % window
  end

  -- The first window, or nothing in the one that is.
  function begin()
    if not head then
      opened = opening()
    end
    since, counts, reserved = now, {0, 0, 0, 0, 0, 0, 0, 0}, false
  end

  function shifted()
    return (opened - sub(ARGV[2], @terms.edge)) % window ~= 0
  end

  -- What was counted stays counted, in the window that now holds the beginning of the one in which
  -- it was.
  function regrid(was)
    local old, from = counts, opened
    opened, counts, reserved = opening(), {0, 0, 0, 0, 0, 0, 0, 0}, false
    for i = 1, 8 do
      local later = floor((from + (i - 1) * was - opened) / window)
      if later < 0 then
        later = 0
      end
      counts[later > 7 and 8 or later + 1] = counts[later > 7 and 8 or later + 1] + old[i]
      reserved = reserved or later > 0 and old[i] > 0
    end
  end

  function retire()
  end

  function reshape()
  end

  function lasts()
    return window
  end

  function held()
    local most = 0
    for i = 1, 8 do
      if counts[i] > most then
        most = counts[i]
      end
    end
    return most
  end
end

if not TAKES then
  function booked()
    local sum = 0
    for i = 2, 8 do
      sum = sum + counts[i]
    end
    return sum
  end

  -- How many of n permits make a difference: with the share, nothing is free in this window.
  function overdraw(n)
    local most = share < @MOST_USED - counts[1] and share or @MOST_USED - counts[1]
    return n < most and n or most > 0 and most or 0, 0
  end

  function refund(n, at)
    local i = floor((at - opened) / window) + 1
    if at < since or i < 1 or i > 8 then
      return 0
    end
    if n > counts[i] then
      n = counts[i]
    end
    counts[i] = counts[i] - n
    reserved = reserved and booked() > 0
    return n
  end

  function earliest(n, after)
    if after == 0 and n <= free() then
      return 0, true
    end
    local most, i = share < target and share or target, floor((now + after - opened) / window) + 1
    if n > most then
      return -1, false
    end
    while i <= 8 and counts[i] + n > most do
      i = i + 1
    end
    local us = opened + (i - 1) * window - now
    return us < after and after or us, i <= 8
  end

  function book(n, us)
    local i = floor((now + us - opened) / window) + 1
    counts[i] = counts[i] + n
    reserved = reserved or i > 1
    return now + us
  end

  function releases(reply)
    if counts[1] > 0 then
      reply[#reply + 1] = opened + window - now
      reply[#reply + 1] = counts[1]
    end
  end

  function beside(reply)
    for i = 1, 8 do
      reply[#reply + 1] = i > 1 and opened + (i - 1) * window - now or 0
      reply[#reply + 1] = counts[i]
    end
    reply[#reply + 1] = opened + 8 * window - now
    reply[#reply + 1] = 0
  end
end
