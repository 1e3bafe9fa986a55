--@needs TAKES as_proposed back burst date ebb format full level measure move muldiv now part
--@needs payable reset retire_at retired retry room share sub target used wait window
--@sets begin book booked date earliest held lasts overdraw pace part refund reshape retire
--@sets retry
--@gives advance grant parse text
-- Leaky bucket: permits act one after the other, window/share apart; what is in the bucket waits
-- for its turn.
--
-- Its own columns: when the next permit may act.
--@layout leaky
--
-- A share falls when the last permit granted under it has acted, and nothing is granted until then;
-- it rises at once, for what is granted from then on. So at every instant the rates at which the
-- shards let permits act sum to at most the limit.
local function parse(state)
  date, part = sub(state, @leaky.date) + 0, sub(state, @leaky.part) + 0
  return #state == @leaky.bytes and date < 1e16 and part >= 0 and (part < share or part == 0)
end

local function text()
  return format('@leaky.form', date, part)
end

local grant = move
local idle = 0 -- microseconds for which no turn has been due

local function advance()
  if now > full() then
    idle = now - full()
  end
  measure()
end

function pace()
  return date - now, part
end

function retry(n)
  if n > room or n > burst then
    return -1
  end
  return share > target and reset() or wait(n)
end

if not as_proposed then
  function begin()
    date, part = now, 0
    measure()
  end

  -- Turns that were given stay; the next one comes when it would have, rounded up as the part
  -- counts in another share.
  function reshape()
    if not (target == 0 and burst > 0) then
      date, part = full(), 0
      if retired then -- the next turn was a window before
        date = date - window > now and date - window or now
      end
    end
    measure()
  end

  -- What acted in the window that ends now is at most what its rate lets act from then on until the
  -- last turn.
  function retire()
    retire_at(full() - idle + window)
  end

  -- The queue may be longer than a window.
  function lasts()
    local us, rest = window, 0
    if target > 0 and burst > target then
      us, rest = muldiv(window, burst, 0, target)
    end
    return rest > 0 and us + 1 or us
  end

  function held()
    if target == 0 and burst > 0 then
      return ebb()
    end
    return full() > now and share or 0
  end
end

if not TAKES then
  -- An ask acts with its last permit.
  local function turn(n)
    local us, rest = muldiv(window, n - 1, part, share)
    return date + us + (rest > 0 and 1 or 0) - now
  end

  -- How many of n turns may be charged, if the last is to come within so many us, and when it does.
  function overdraw(n, us)
    if share == 0 or retired then
      return 0, 0
    end
    n = payable(n, us)
    return n, n > 0 and turn(n) or 0
  end

  -- Turns may be reserved behind the queue. They count as in it, so nothing is granted at once
  -- until it is shorter again.
  function earliest(n, after)
    if share > target or n > room or n > burst then
      return retry(n), false
    end
    local us = turn(n)
    return us < after and after or us, true
  end

  -- Where the turns are to come later than they would, nobody has those before.
  function book(n, us)
    date = date + us - turn(n)
    grant(n)
    measure()
    return now + us
  end

  function booked()
    return used()
  end

  -- Only the last turns given can be taken back: the others would leave holes. `at` is when the
  -- last permit of the grant acts.
  function refund(n, at)
    if share == 0 or retired or at <= now then
      return 0
    end
    local last, rest, had = date, part, level
    back(1)
    if full() ~= at then
      date, part = last, rest
      return 0
    end
    if n > room - level then
      n = room - level
    end
    if n > 1 then
      back(n - 1)
    end
    measure()
    return level - had < n and level - had or n
  end
end
