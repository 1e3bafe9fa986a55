-- Leaky bucket: permits act one after the other, window/share apart, each in its turn; what is in
-- the bucket are turns to come.
--
-- Its own columns: the last turn given. The next one comes an interval later, of the rate then in
-- force.
--@layout leaky
--
-- A share falls when the last permit granted under it has acted, and nothing is granted until then;
-- it rises at once, for what is granted from then on. So at every instant the rates at which the
-- shards let permits act sum to at most the limit.
--@include bucket
local last, last_part = 0, 0

local function parse(state)
  last, last_part = numbers('@leaky.form', state, @leaky.date.from)
  return #state == @leaky.bytes and last < 1e16 and (last_part < share or last_part == 0)
end

local function text()
  return pack('@leaky.form', last, last_part)
end

-- The date of the bucket is the next turn, or of one that leaves when it gives up its share.
local function advance()
  date, part = last, last_part
  if share > 0 then
    move(1)
  end
  measure()
end

local function grant(n)
  move(n - 1)
  last, last_part = date, part
  move(1)
end

function pace()
  return date - now, part
end

function retry(n)
  if n > room or n > burst then
    return -1
  end
  return share > target and full() - now or wait(n)
end

-- The last turn, rounded up.
local function last_turn()
  return last_part > 0 and last + 1 or last
end

if not as_proposed then
  function begin()
    last, last_part = 0, 0
    advance()
  end

  -- Turns given closer together do not come back: a microsecond later, nobody has the last one.
  function regrid(was)
    if window > was then
      last = last + 1
    end
  end

  function reshape()
    last, last_part = last_turn(), 0
    advance()
  end

  function ends()
    return last_turn() + window - now
  end

  function held()
    return full() > now and share or 0
  end
end

if not TAKES then
  -- An ask acts with its last permit.
  local function turn(n)
    local us, rest = muldiv(window, n - 1, part, share)
    return date + us + (rest > 0 and 1 or 0) - now
  end

  -- A reservation is a turn like that of a take.
  function earliest(n, after)
    if share > target or n > room or n > burst then
      return retry(n), false
    end
    local us = turn(n)
    return us < after and after or us, n <= level
  end

  -- Where the turns are to come later than they would, nobody has those before.
  function book(n, us)
    date = date + us - turn(n)
    grant(n)
    measure()
    return now + us
  end

  -- Only the last turns given can be taken back: the others would leave holes. `at` is when the
  -- last permit of the grant acts.
  function refund(n, at)
    if share == 0 or closed_until > now or at <= now or last_turn() ~= at then
      return 0
    end
    local had = level
    date, part = last, last_part
    give_back(n < room - had and n or room - had)
    last, last_part = date, part
    advance()
    return level - had < n and level - had or n
  end
end
--@include bucket_load
