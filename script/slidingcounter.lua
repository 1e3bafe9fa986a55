--@needs TAKES as_proposed format now share sub target window
--@sets begin book earliest falls held lasts overdraw refund regrid releases reshape
--@gives advance free grant parse reset retry soonest text used
-- Sliding counter: the permits of the window in at most 32 cells, each counted as if all of it had
-- been granted with its newest.
--
-- Its own columns: permits in use; when the newest cell opened (0: it is closed); what was granted
-- before `since` is forgotten; then the cells, oldest first, each with the date of its newest
-- grant. A cell takes grants for window / @CELL_PART.
--@layout counter
--@layout cell
-- Cells dated ahead of now are booked; what is granted now goes before them, or into the first of
-- them if there is no room for another cell.
local used_now, opened, since, cells = 0, 0, 0, ''

local function parse(state)
  used_now, opened, since, cells =
    sub(state, @counter.used) + 0, sub(state, @counter.opened) + 0, sub(state, @counter.since) + 0,
      sub(state, @counter.cells)
  return #cells % @cell.bytes == 0 and #cells <= @cell.bytes[@MAX_CELLS] and used_now >= 0 and used_now < 1e13
    and opened < 1e16 and since < 1e16
end

local function text()
  return format('@counter.used..since.form', used_now, opened, since) .. cells
end

local function advance()
  local cut, from = now - window, 1
  while from < #cells and sub(cells, @cell.date[from]) + 0 <= cut do
    used_now = used_now - sub(cells, @cell.permits[from])
    from = from + @cell.bytes
  end
  if from > 1 then
    since = sub(cells, @cell.date[..from - 1]) + 1
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
  while last > 0 and sub(cells, @cell.date[..last]) + 0 > now do
    last = last - @cell.bytes
  end
  return last
end

local function grant(n)
  used_now = used_now + n
  local last = past()
  local before, after = sub(cells, 1, last), sub(cells, last + 1)
  if last > 0
    and (#cells >= @cell.bytes[@MAX_CELLS] or (now - opened) * @CELL_PART < window
      or sub(cells, @cell.date[..last]) + 0 == now) then
    before = sub(cells, 1, last - @cell.bytes) .. format('@cell.form', now, sub(cells, @cell.permits[..last]) + n)
  elseif #cells >= @cell.bytes[@MAX_CELLS] then
    after =
      sub(after, @cell.date) .. format('@cell.permits.form', sub(after, @cell.permits) + n) .. sub(after, @cell.next)
  else
    opened = now
    before = before .. format('@cell.form', now, n)
  end
  cells = before .. after
end

local function reset()
  return cells ~= '' and sub(cells, @cell.date[..#cells]) + window - now or 0
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
  for from = 1, #cells, @cell.bytes do
    need = need - sub(cells, @cell.permits[from])
    if need <= 0 then
      return sub(cells, @cell.date[from]) + window - now
    end
  end
  return reset()
end

local function soonest()
  if cells == '' then
    return 0
  end
  local us = free() > 0 and sub(cells, @cell.date) + window - now or retry(1)
  return us < 0 and reset() or us
end

if not as_proposed then
  function falls()
    return sub(cells, @cell.date) + window - now
  end

  function begin()
    used_now, opened, since, cells = 0, 0, now, ''
  end

  function regrid()
    advance()
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
  -- How many of n permits make a difference: with the share, nothing is free for a window.
  function overdraw(n)
    local most = share < target and target or share
    if most > @MOST_USED - used_now then
      most = @MOST_USED - used_now
    end
    return n < most and n or most > 0 and most or 0
  end

  -- What was granted a window ago does not come back, though its cell may be younger: nobody knows
  -- any more whether it did before.
  function refund(n, at)
    if at < since or at <= now - window then
      return 0
    end
    for from = 1, #cells, @cell.bytes do
      if sub(cells, @cell.date[from]) + 0 >= at then
        local permits = sub(cells, @cell.permits[from]) + 0
        if n > permits then
          n = permits
        end
        local rest = sub(cells, from + @cell.bytes)
        if n < permits then
          rest = sub(cells, @cell.date[from]) .. format('@cell.permits.form', permits - n) .. rest
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

  function earliest(n, after)
    if after == 0 and n <= free() then
      return 0, true
    end
    local us = retry(n)
    if us < 0 then
      return us, false
    end
    local newest = cells ~= '' and sub(cells, @cell.date[..#cells]) - now or 0
    return math.max(us, after, newest), true
  end

  -- Bookings closer than the resolution share a cell, dated like the later one, and so do all for
  -- which there is no cell.
  function book(n, us)
    local size, date = #cells, now + us
    if us == 0 then
      grant(n)
    else
      used_now = used_now + n
      local newest = size > 0 and sub(cells, @cell.date[..size]) + 0 or 0
      if size == @cell.bytes[@MAX_CELLS] or newest > now and (date - newest) * @CELL_PART < window then
        cells = sub(cells, 1, size - @cell.bytes) .. format('@cell.form', date, sub(cells, @cell.permits[..size]) + n)
      else
        cells = cells .. format('@cell.form', date, n)
      end
    end
    return date
  end

  function releases(reply)
    for from = 1, #cells, @cell.bytes do
      reply[#reply + 1] = sub(cells, @cell.date[from]) + window - now
      reply[#reply + 1] = sub(cells, @cell.permits[from]) + 0
    end
  end
end
