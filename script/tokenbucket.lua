--@needs TAKES as_proposed burst date ebb find floor format give_back level measure move muldiv now
--@needs part retire_at retry room share span sub target touched wait window
--@sets begin book date earliest held part refund reshape retire retry
--@gives advance grant parse text
-- Token bucket: what is in it may be used at once.
--
-- Its own columns: the date; since when grants are known; what is booked ahead: when the last of it
-- is due, its crest, and the permits of it; the least that was missing before a grant, in the
-- stretch of time under way and in each of the @LOWS before. In @LOWS stretches an empty bucket
-- fills.
--@layout tokens
--@layout low
--
-- A share that falls clamps the bucket at once, and one that rises adds nothing. So the permits in
-- all buckets sum to at most the burst, and the shares to at most the limit. What all shards grant
-- in any t is at most a burst, plus what they gained: limit*t.
--
-- What comes back must not bring back what would have overflowed meanwhile. If n permits had not
-- been granted, n less what the bucket gained since would surely be there. And if the bucket lacked
-- m at least before each grant since, then so would the lesser of m and n. The greater of the two
-- comes back, and m is the less by n from then on: it tells of a bucket that had them.
--
-- Permits booked ahead are taken out at once, as a debt, and used when they are due. Until then
-- they are in the bucket all the same, so the level must stay below `room` by what is still to be
-- used. At an instant before the last date that is no more than what is booked, and no more than
-- the crest and what the bucket gains until that date. The crest is the most by which what is used
-- from one booking on up to the last exceeds what is gained between the two. So it must not exceed
-- the room.
local NO_LOWS = string.rep('@MOST_LACKING', @LOWS + 1)
local since, lows, due, crest, booked = 0, NO_LOWS, 0, 0, 0

local function parse(state)
  date, part, since, due, crest, booked, lows =
    sub(state, @tokens.date) + 0, sub(state, @tokens.part) + 0, sub(state, @tokens.since) + 0,
      sub(state, @tokens.due) + 0, sub(state, @tokens.crest) + 0, sub(state, @tokens.booked) + 0,
      sub(state, @tokens.lows)
  return #state == @tokens.bytes and not find(lows, '[^ %d]') and date < 1e16 and part >= 0
    and (part < share or part == 0) and since < 1e16 and due < 1e16 and crest >= 0 and crest <= booked
    and booked < 1e13
end

local function text()
  return format('@tokens.date..booked.form', date, part, since, due, crest, booked) .. lows
end

-- How many stretches ago an instant was.
local function stretches(at)
  local stretch = floor(window * burst / target / @LOWS)
  return stretch > 0 and floor(now / stretch) - floor(at / stretch) or @LOWS + 1
end

-- Has what was missing in the stretch whose number is there be no more than that.
local function lower(from, lacking)
  lacking = lacking > 0 and lacking or 0
  if lacking < sub(lows, @low.permits[from]) + 0 then
    lows = sub(lows, 1, from - 1) .. format('@low.form', lacking) .. sub(lows, from + @low.bytes)
  end
end

-- Of so many permits, what the bucket does not gain in the time.
local function lacks(n, us)
  return share * us / window < n and n - muldiv(share, us, 0, window) or 0
end

-- What is booked is in the bucket at the instant, and what had no room beside it has flowed over.
local function make_room(instant)
  local us, rest = span(booked, 0)
  local least = instant + us
  if date < least or date == least and part < rest then
    date, part = least, rest
  end
  measure()
end

local function advance()
  if target > 0 then
    local passed = stretches(touched)
    if passed > 0 then
      lows = sub(string.rep('@MOST_LACKING', passed > @LOWS and @LOWS + 1 or passed) .. lows, 1, #lows)
    end
  end
  if booked > 0 then
    local instant = now < due and now or due
    booked = booked - lacks(booked - crest, due - instant)
    make_room(instant)
    lower(1, 0) -- what is booked needs room beside what is missing
    if due <= now then
      due, crest, booked = 0, 0, 0
    end
  end
  measure()
end

local function grant(n)
  lower(1, room - level - 1) -- a part of a permit counts as one
  move(n)
end

-- Where there is no room beside what is booked, once that was used.
function retry(n)
  if n > room then
    return -1
  end
  local us = wait(n)
  if n + crest > room then
    local longer, rest = span(n + crest - room, 0)
    longer = due + longer + (rest > 0 and 1 or 0) - now
    us = longer > us and longer or us
  end
  return us
end

if not as_proposed then
  -- Nothing comes back of what was granted so far.
  local function leave()
    since, lows = now + 1, NO_LOWS
  end

  function begin()
    date, part, due, crest, booked = now, 0, 0, 0, 0
    since, lows = now, NO_LOWS
    measure()
  end

  -- The same permits under another rate, as far as there is room. Of what was granted before
  -- nothing comes back: it is not known what the bucket gained.
  function reshape()
    if target == 0 and burst > 0 then
      return measure()
    end
    local had = level -- under the old rate
    leave()
    date, part = now, 0
    measure()
    if share > 0 then
      if had < room then
        move(room - had)
      end
      crest = booked -- what is gained until it is due is another now
      make_room(now)
    end
  end

  -- What it may have granted in the window that ends now is what is missing and what it gained;
  -- that and what its share then lets others grant are at most a burst and a window's gain, if the
  -- share falls to what would be in a bucket without a rim.
  function retire()
    leave()
    local us, rest = 0, 0
    if level < share then
      us, rest = span(share - level, 0)
    end
    retire_at(now + us + (rest > 0 and 1 or 0))
    due, crest, booked = 0, 0, 0
  end

  -- What is reserved was dated at the rate in force.
  function held()
    if target == 0 and burst > 0 then
      return ebb()
    end
    return (level < 0 or booked > 0) and share or 0
  end
end

if not TAKES then
  -- No booking is due before an earlier one.
  function earliest(n, after)
    local us = retry(n)
    if us >= 0 then
      us = math.max(us, after, due - now)
    end
    return us, share <= target
  end

  function book(n, us)
    grant(n)
    if us > 0 then
      crest, booked = n + lacks(crest, now + us - due), booked + n
      due = now + us
    end
    return now + us
  end

  function refund(n, at)
    if share == 0 or target == 0 or at < since then
      return 0
    end
    local had = level
    if at > now then
      n = at > due and 0 or n < booked and n or booked
      booked = booked - n
      crest = crest < booked and crest or booked
      due = booked > 0 and due or 0
      give_back(n)
    else
      local last, least = 1 + stretches(at) * @low.bytes, n
      if last > #lows then
        last, least = #lows, 0
      end
      for from = 1, last, @low.bytes do
        local lacked = sub(lows, @low.permits[from]) + 0
        least = lacked < least and lacked or least
        lower(from, lacked - n)
      end
      if share * (now - at) / window < n - least then
        give_back(n)
        date = date + now - at
      elseif least > 0 then
        give_back(least)
      end
    end
    make_room(now)
    return n < level - had and n or level - had
  end
end
