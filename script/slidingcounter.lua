--@needs TAKES as_proposed format now share sub target window
--@sets begin book booked falls held lasts promise refund regrid releases reshape retire
--@gives advance free grant parse reset retry soonest text used
-- Sliding counter: the permits of the window in at most 32 cells, each counted as if all of it had been granted with its newest.
--
-- Its own fields: 150 used(13)   163 opened(16): when the newest cell opened (0: it is closed)   179 since(16): what was granted earlier is forgotten
-- 195 cells, oldest first: date of the newest grant(16), permits(13) each. A cell takes grants for window / 16.
-- Cells dated ahead of now are booked; what is granted now goes before them, or into the first of them if there is no room for another cell.
local used_now, opened, since, cells = 0, 0, 0, ''

local function parse(head)
  used_now, opened, since, cells = sub(head, 150, 162) + 0, sub(head, 163, 178) + 0, sub(head, 179, 194) + 0, sub(head, 195)
  return #cells % 29 == 0 and #cells <= 928 and used_now >= 0 and used_now < 1e13 and opened < 1e16 and since < 1e16
end

local function text()
  return format('%13d%16d%16d', used_now, opened, since) .. cells
end

local function advance()
  local cut, from = now - window, 1
  while from < #cells and sub(cells, from, from + 15) + 0 <= cut do
    used_now = used_now - sub(cells, from + 16, from + 28)
    from = from + 29
  end
  if from > 1 then
    since = sub(cells, from - 29, from - 14) + 1
    cells = sub(cells, from)
  end
end

local function used()
  return used_now
end

local function free()
  return used_now < share and share - used_now or 0
end

-- Where the cells end that are not booked.
local function past()
  local last = #cells
  while last > 0 and sub(cells, last - 28, last - 13) + 0 > now do
    last = last - 29
  end
  return last
end

local function grant(n)
  used_now = used_now + n
  local last = past()
  local before, after = sub(cells, 1, last), sub(cells, last + 1)
  if last > 0 and (#cells >= 928 or (now - opened) * 16 < window or sub(cells, last - 28, last - 13) + 0 == now) then
    before = sub(cells, 1, last - 29) .. format('%16d%13d', now, sub(cells, last - 12, last) + n)
  elseif #cells >= 928 then
    after = sub(after, 1, 16) .. format('%13d', sub(after, 17, 29) + n) .. sub(after, 30)
  else
    opened = now
    before = before .. format('%16d%13d', now, n)
  end
  cells = before .. after
end

local function reset()
  return cells ~= '' and sub(cells, #cells - 28, #cells - 13) + window - now or 0
end

local function retry(n)
  local most = share < target and share or target
  if n > most then
    return -1
  end
  local need = used_now + n - most
  if need <= 0 then
    return 0
  end
  for from = 1, #cells, 29 do
    need = need - sub(cells, from + 16, from + 28)
    if need <= 0 then
      return sub(cells, from, from + 15) + window - now
    end
  end
  return reset()
end

local function soonest()
  if cells == '' then
    return 0
  end
  local us = free() > 0 and sub(cells, 1, 16) + window - now or retry(1)
  return us < 0 and reset() or us
end

if not as_proposed then
  function falls()
    return sub(cells, 1, 16) + window - now
  end

  function begin()
    used_now, opened, since, cells = 0, 0, now, ''
  end

  function regrid()
    advance()
  end

  function retire()
  end

  function reshape()
  end

  function lasts()
    return window
  end

  function held()
    return used_now
  end
end

if not TAKES then
  function booked()
    local sum = 0
    for from = past() + 1, #cells, 29 do
      sum = sum + sub(cells, from + 16, from + 28)
    end
    return sum
  end

  function refund(n, at)
    if at < since then
      return 0
    end
    for from = 1, #cells, 29 do
      if sub(cells, from, from + 15) + 0 >= at then
        local permits = sub(cells, from + 16, from + 28) + 0
        if n > permits then
          n = permits
        end
        local rest = sub(cells, from + 29)
        if n < permits then
          rest = sub(cells, from, from + 15) .. format('%13d', permits - n) .. rest
        elseif rest == '' then
          opened = 0
        end
        cells = sub(cells, 1, from - 1) .. rest
        used_now = used_now - n
        return n
      end
    end
    return 0
  end

  function promise(n, after)
    if after == 0 and n <= free() then
      return 0, true
    end
    local us = retry(n)
    if us < 0 then
      return us, false
    end
    local newest = cells ~= '' and sub(cells, #cells - 28, #cells - 13) - now or 0
    return math.max(us, after, newest), #cells < 696
  end

  -- Bookings closer than the resolution share a cell, dated like the later one.
  function book(n, us)
    local size, date = #cells, now + us
    if us == 0 then
      grant(n)
    else
      used_now = used_now + n
      local newest = size > 0 and sub(cells, size - 28, size - 13) + 0 or 0
      if newest > now and (date - newest) * 16 < window then
        cells = sub(cells, 1, size - 29) .. format('%16d%13d', date, sub(cells, size - 12) + n)
      else
        cells = cells .. format('%16d%13d', date, n)
      end
    end
    return date
  end

  function releases(reply)
    for from = 1, #cells, 29 do
      reply[#reply + 1] = sub(cells, from, from + 15) + window - now
      reply[#reply + 1] = sub(cells, from + 16, from + 28) + 0
    end
  end
end
