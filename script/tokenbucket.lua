--@needs FAR TAKES as_proposed back burst date ebb format full level measure move muldiv now part
--@needs payable receipt retire_at retired retry room share span sub target wait window
--@sets begin book date earliest held lasts overdraw part receipt refund reshape
--@sets retire retry
--@gives advance grant parse text
-- Token bucket: what is in it may be used at once.
--
-- Its own columns: the date; the microseconds of refill that refunds have taken off it so far;
-- then, unless all of it is empty, how many notes there are, the notes, at most @MOST_NOTES, by
-- receipt, and what is booked ahead, at most @MOST_BOOKINGS bookings, by date.
--@layout tokens
--@layout note
--@layout booking
--
-- A share that falls clamps the bucket at once, and one that rises adds nothing. So the permits in
-- all buckets sum to at most the burst, and the shares to at most the limit. What all shards grant in
-- any t is at most a burst, plus what they gained: limit*t.
--
-- A refund must not bring back what would have overflowed meanwhile. date + returned never runs
-- back, whatever is refunded: each grant moves it on, and its value just after, rounded up, is the
-- receipt. So the receipt tells how many permits were granted since; the notes, how many of these
-- were given back. A refund leaves at least as many missing as there remain: just what would be
-- missing if it had never been granted. So refunds of all grants before an instant s give back at
-- most what was missing at s, and the bound above holds. Whatever the order, all comes back that
-- can. What is booked counts as granted when it is due. What overflowed because of it moves the
-- date on as a grant would, so receipts from before can gain no more than is missing besides the
-- bookings: nothing.
--
-- Permits booked ahead are taken out at once, and used when the level is back at 0. If others are
-- cancelled, or the rate rises, it is so earlier. Until they are used they are in the bucket all
-- the same, so up to each date the level must stay below `room` by what is booked from there on:
-- yield sees to that. It is not stored, because what is booked may be canceled before anything
-- flows over, and then leaves no trace.
--
-- Every call reads all bookings. So from @MANY_BOOKINGS on, for each further one the first two in a
-- row that are no more than the room become one, with the later date and the earlier receipt. They
-- keep more of the room for longer, and count as used after more of what was granted: at least what
-- holds for the two. Where each is due when the level is back at 0 that costs nothing, as they
-- leave at least as much of the room. One that is cancelled then is given back as if it were no
-- booking.
local returned, returned_part = 0, 0
local notes, bookings = '', ''
local own_date, own_part, raised = 0, 0, false -- the date without what yield adds to it, while that is there
local own_level = 0                            -- the level then

local function parse(state)
  date, part, returned, returned_part =
    sub(state, @tokens.date) + 0, sub(state, @tokens.part) + 0, sub(state, @tokens.returned) + 0,
      sub(state, @tokens.returned_part) + 0
  if #state > @tokens.returned_part.to then
    local from = @tokens.notes + @note.bytes * sub(state, @tokens.count)
    notes, bookings = sub(state, @tokens.notes, from - 1), sub(state, from)
    if from < @tokens.notes or from > @tokens.notes + @note.bytes[@MOST_NOTES]
      or from % @note.bytes ~= @tokens.notes % @note.bytes or from > #state + 1 then
      return false
    end
  end
  return #bookings % @booking.bytes == 0 and #bookings <= @booking.bytes[@MOST_BOOKINGS] and date < 1e16 and part >= 0
    and (part < share or part == 0) and returned >= 0 and returned < 1e16
    and returned_part >= 0 and (returned_part < share or returned_part == 0)
end

local function text()
  local own =
    format('@tokens.date..returned_part.form', raised and own_date or date, raised and own_part or part, returned,
      returned_part)
  if notes ~= '' or bookings ~= '' then
    return own .. format('@tokens.count.form', #notes / @note.bytes) .. notes .. bookings
  end
  return own
end

-- Date + returned, rounded up.
function receipt()
  local day, rest = date, part
  if raised then
    day, rest = own_date, own_part
  end
  rest = rest + returned_part
  return day + returned + (rest > share and 2 or rest > 0 and 1 or 0)
end

local yield, bare, overflow, sum_booked, move_on, note -- made only where something may be booked or refunded

local function prepare_notes()
  -- Notes that the date was taken back by so many us and parts.
  function move_on(us, rest)
    returned, returned_part = returned + us, returned_part + rest
    if returned_part < 0 then
      returned, returned_part = returned - 1, returned_part + share
    end
    if returned_part >= share then
      returned, returned_part = returned + 1, returned_part - share
    end
  end

  -- Remembers what was given back. Where there is no room for one more, the two oldest are put
  -- together: what was granted between them may get less back.
  function note(at, permits)
    if permits == 0 then
      return
    end
    local last = #notes
    while last > 0 and sub(notes, @note.receipt[..last]) + 0 > at do
      last = last - @note.bytes
    end
    local function entry(stamp, n)
      return format('@note.form', stamp, n < 9999999999999 and n or 9999999999999)
    end
    if last > 0 and sub(notes, @note.receipt[..last]) + 0 == at then
      notes =
        sub(notes, 1, last - @note.bytes) .. entry(at, sub(notes, @note.permits[..last]) + permits)
          .. sub(notes, last + 1)
      return
    end
    if #notes == @note.bytes[@MOST_NOTES] then
      notes =
        entry(sub(notes, @note.receipt) + 0, sub(notes, @note.permits) + sub(notes, @note.permits[30]))
          .. sub(notes, @note.next[30])
      last = last > @note.bytes and last - @note.bytes or last
    end
    notes = sub(notes, 1, last) .. entry(at, permits) .. sub(notes, last + 1)
  end
end

local function prepare()
  prepare_notes()

  -- Keeps the level, up to the instant, below the room by so many permits.
  local function at_least(instant, permits)
    local us, rest = span(permits, 0)
    local least = instant + us
    if date < least or date == least and part < rest then
      date, part = least, rest
    end
  end

  function sum_booked()
    local sum = 0
    for last = #bookings, 1, -@booking.bytes do
      sum = sum + sub(bookings, @booking.permits[..last])
    end
    return sum
  end

  function yield()
    own_date, own_part, raised = date, part, bookings ~= ''
    if raised then
      measure()
      own_date, own_part, own_level = date, part, level
    end
    local later = 0
    for last = #bookings, 1, -@booking.bytes do
      later = later + sub(bookings, @booking.permits[..last])
      at_least(sub(bookings, @booking.date[..last]) + 0, later)
    end
    measure()
  end

  -- Undoes yield.
  function bare()
    if raised then
      date, part, raised = own_date, own_part, false
    end
  end

  -- Drops the bookings that are due. What flowed over up to now, because the bucket was full with
  -- what is booked, is gone.
  function overflow()
    local later, from = sum_booked(), 1
    while from < #bookings and sub(bookings, @booking.date[from]) + 0 <= now do
      at_least(sub(bookings, @booking.date[from]) + 0, later)
      local due = sub(bookings, @booking.permits[from]) + 0
      later = later - due
      -- it counts as granted now, after what was granted since it was booked
      note(sub(bookings, @booking.receipt[from]) + 0, due)
      local us, rest = span(due, 0)
      if us < FAR then
        move_on(us, rest)
      end
      from = from + @booking.bytes
    end
    bookings = sub(bookings, from)
    if later > 0 then
      at_least(now, later)
    end
    measure()
  end
end

local function advance()
  measure()
  if full() == now then -- nothing of what was granted so far is left to gain
    if returned_part > 0 then
      returned, returned_part = returned + 1, 0
    end
    if returned > 1e15 then -- in a thousand years; receipts from before are larger than any to come
      returned = 0
    end
    notes = ''
  end
  if bookings ~= '' then
    if TAKES and as_proposed then
      prepare()
    end
    overflow()
    yield()
  end
end

local function grant(n)
  if bookings == '' and not raised then
    return move(n)
  end
  bare()
  move(n)
  yield()
end

function retry(n)
  if n > room then
    return -1
  end
  return wait(n)
end

if not (TAKES and as_proposed) then
  prepare()
end

if not as_proposed then
  -- All receipts so far are worth nothing.
  local function leave()
    returned = returned + full() - now + (returned_part > 0 and 1 or 0)
    returned_part, notes = 0, ''
  end

  function begin()
    date, part, returned, returned_part, notes, bookings, raised = now, 0, 0, 0, '', '', false
    measure()
  end

  -- The same permits under another rate, as far as there is room. Receipts from before are worth
  -- nothing: they count refill at the old rate.
  function reshape()
    if target == 0 and burst > 0 then
      return measure()
    end
    local had = raised and own_level or level -- under the old rate
    bare()
    leave()
    date, part = now, 0
    measure()
    if had < room and share > 0 then
      move(room - had)
    end
    yield()
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
    bookings, raised = '', false
  end

  function lasts()
    return window
  end

  -- What is reserved was dated at the rate in force.
  function held()
    if target == 0 and burst > 0 then
      return ebb()
    end
    return (level < 0 or bookings ~= '') and share or 0
  end
end

if not TAKES then
  -- How many of n permits may be charged, if the bucket is to be full within so many us.
  function overdraw(n, us)
    if share == 0 or retired then
      return 0, 0
    end
    return payable(n, us), 0
  end

  -- Where the first of two bookings begins that can become one, nil if there are none.
  local function pair()
    for from = 1, #bookings - @booking.bytes, @booking.bytes do
      local other = from + @booking.bytes
      if sub(bookings, @booking.permits[from]) + sub(bookings, @booking.permits[other]) <= room then
        return from
      end
    end
  end

  function earliest(n, after)
    local us = retry(n)
    return us >= 0 and us < after and after or us,
      share <= target and (#bookings < @booking.bytes[@MOST_BOOKINGS] or pair())
  end

  -- Makes two bookings one.
  local function join(from)
    local other = from + @booking.bytes
    local at, its = sub(bookings, @booking.receipt[from]) + 0, sub(bookings, @booking.receipt[other]) + 0
    bookings =
      sub(bookings, 1, from - 1)
        .. format('@booking.form', sub(bookings, @booking.date[other]), its < at and its or at,
          sub(bookings, @booking.permits[from]) + sub(bookings, @booking.permits[other]))
        .. sub(bookings, other + @booking.bytes)
  end

  function book(n, us)
    local from = us > 0 and #bookings >= @booking.bytes[@MANY_BOOKINGS] and pair()
    if from then
      join(from)
    end
    grant(n)
    local at = receipt()
    if us > 0 then
      bare()
      local last = #bookings
      while last > 0 and sub(bookings, @booking.date[..last]) + 0 > now + us do
        last = last - @booking.bytes
      end
      bookings = sub(bookings, 1, last) .. format('@booking.form', now + us, at, n) .. sub(bookings, last + 1)
      yield() -- the date was rounded up
    end
    return at
  end

  -- Takes up to n permits off the bookings with this receipt, which are several only within a
  -- microsecond, and returns how many.
  local function cancel(n, at)
    local canceled = 0
    for last = #bookings, 1, -@booking.bytes do
      if canceled < n and sub(bookings, @booking.receipt[..last]) + 0 == at then
        local had = sub(bookings, @booking.permits[..last]) + 0
        local taken = had < n - canceled and had or n - canceled
        local entry =
          taken < had and sub(bookings, @booking.date..receipt[..last]) .. format('@booking.permits.form', had - taken)
            or ''
        bookings = sub(bookings, 1, last - @booking.bytes) .. entry .. sub(bookings, last + 1)
        canceled = canceled + taken
      end
    end
    return canceled
  end

  -- How many permits were granted after the grant with this receipt, or are used after it, and not
  -- given back: at least as many as there were.
  local function since(at)
    local us, more = date + returned, part + returned_part
    if more >= share then
      us, more = us + 1, more - share
    end
    if at > us and (at > us + 1 or more == 0) then
      return FAR
    end
    us, more = us - at + 1, more - 1
    if more < 0 then
      us, more = us - 1, more + share
    end
    if us >= FAR or share * us / window >= FAR then
      return FAR
    end
    local permits = muldiv(share, us, more, window)
    for last = #notes, 1, -@note.bytes do
      if sub(notes, @note.receipt[..last]) + 0 > at then
        permits = permits - sub(notes, @note.permits[..last])
      end
    end
    permits = permits > 0 and permits or 0
    for last = #bookings, 1, -@booking.bytes do
      if sub(bookings, @booking.receipt[..last]) + 0 < at then
        permits = permits + sub(bookings, @booking.permits[..last])
      end
    end
    return permits
  end

  -- Puts back what is left to gain of n permits that were granted, and returns how many these are.
  local function regain(n, at)
    local remain, missing, had = since(at), room - level, level
    if remain >= missing or missing >= FAR then
      return 0
    end
    if n > missing then
      n = missing
    end
    local whole = muldiv(share, date - now, part, window)
    if remain + n <= whole then
      back(n)
      note(at, n)
    else
      local us, rest = span(remain, 0)
      date, part = now + us, rest
      note(at, whole - remain)
    end
    measure()
    return level - had < n and level - had or n
  end

  function refund(n, at)
    if share == 0 or retired or returned > 4e15 then
      return 0
    end
    bare()
    measure()
    local was_date, was_part = date, part
    local refunded = cancel(n, at)
    if refunded > 0 then
      back(refunded) -- it was not used yet, so it is all there
      note(at, refunded)
    else
      refunded = regain(n, at)
    end
    move_on(was_date - date, was_part - part)
    yield()
    return refunded
  end
end
