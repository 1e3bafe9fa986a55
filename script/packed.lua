-- One-string algorithms, part 1 of every operation but drop: the names that all parts share; read
-- the clock, and of the string what all have in common.
--
-- A shard is one string: what all have in common, then what the algorithm keeps (see its own part,
-- which follows this one). KEYS[1] is that string, KEYS[2] the ledger of participants that contend.
--
-- How it begins: a letter, and with a blank between them epoch, revision, target, window, burst and
-- share. It is all that is proposed, as it is proposed. Then
--   ,  a log with one entry: when it was made, and its permits. So a key takes little that was
--      called once
--   ;  the columns below
--   :  closed_until, offset and contended (see fair.lua), a blank between them, ";" and the columns
--@layout packed
--@layout once
--
-- All times are integers in microseconds of the shard's clock, which is the node's TIME plus an
-- offset that makes up for steps back: it never runs back past `touched`, when the string was last
-- written. The numbers of all columns are bytes.
--
-- Status codes, first in every reply: 0 absent, 1 ok, 2 fresh, 3 lost, 4 fenced. With -1, a value
-- under key number reply[2] is not ours, or reply[3] is what the server said instead. With -2 the
-- server refused the first write, whose text follows: nothing was written.
--
-- The algorithm's part defines, over the names below (times are us from now):
--   parse(own), text()    read its own columns, false or an error if they are not its own; write
--   begin(), advance()    those of a shard that was never used; bring them to now
--   regrid(was)           the window was `was`, and is another
--   reshape()             window, share, burst or target changed
--   held()                what the share must not fall below
--   ends()                until what was let through has left the window
--   used(), free()        permits
--   grant(n)              takes n that are free
--   refund(n, at)         frees up to n of those granted at `at`; gives how many
--   overdraw(n, us)       how many of n that were used count, so that a bucket is full in us
--   earliest(n, after, kept)  until n may be used beside `kept`, -1: never; if they can be booked
--   book(n, us)           books them; gives what settle needs as `at`
--   soonest(), reset()    until more is free, until everything is; 0: it is
--   retry(n)              until n are free; -1: never
--   releases(reply)       adds to the reply when what is used comes back: us, and permits
--   pace()                delay of the first permit granted next, and a part of a us over share
-- TAKES tells whether the operation is a take.
local TAKES = @TAKES
local sub, match, format = string.sub, string.match, string.format
local floor, ceil, max, min = math.floor, math.ceil, math.max, math.min
local epoch, revision, target, window, burst, share, start, closed_until, offset, touched, contended, returned =
  0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
-- To make a function costs more than most calls of it: buckets make some only if they are needed.
local begin, regrid, reshape, ends, held -- unless all is as proposed
local refund, earliest, book, overdraw, releases -- unless the operation is a take: TAKES
local pace                       -- where the algorithm has it
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local head = redis.pcall('GET', KEYS[1]) or nil
local as_proposed = false -- the string begins with what a take or a reservation proposes
local layout, sign, base, own -- of the string: how it begins, and what is behind `base` bytes: see above
-- The clock went back, contended changed: that must be stored; something is booked ahead.
local stepped, remark, booked = false, false, false
if head then
  if type(head) == 'string' then
    layout, epoch, revision, target, window, burst, share, sign, base = match(head, '^(@MAGIC@LAYOUT)([,:;])()')
  end
  if not base then -- or head is an error, which is a table
    return {-1, 1, head.err}
  end
  as_proposed = layout == ARGV[1]
end
if head then
  if sign == ':' then
    closed_until, offset, contended, base = match(head, '^(%d+) (%d+) (%d+);()', base)
    if not base then
      return {-1, 1}
    end
  end
  own = sub(head, base)
  if #own < (sign == ',' and @once.bytes or @packed.bytes) then
    return {-1, 1}
  elseif sign == ',' then
    touched = numbers('@once.touched.form', own, 1)
  else
    start, returned, touched = numbers('@packed.start..touched.form', own, 1)
  end
  epoch, revision, target, window, burst, share, closed_until, offset, contended = epoch + 0, revision + 0, target + 0,
    window + 0, burst + 0, share + 0, closed_until + 0, offset + 0, contended + 0
  -- Also false for NaN and infinity, which strtod accepts.
  if not (epoch >= 1 and window >= 1000 and target < 1e13 and share < 1e13 and closed_until < 1e16 and offset < 1e16
    and touched < 1e16 and burst < 1e13 and contended < 1e16) then
    return {-1, 1}
  end
  -- After a quarantine its share has to be confirmed anew: as if there were no state. One that left
  -- to another algorithm has its share, which may fall now.
  if closed_until > 0 and closed_until <= now + offset and share > 0 then
    closed_until = 0
  elseif closed_until > 0 and closed_until <= now + offset then
    head, as_proposed, share, offset, touched, contended, returned = nil, false, 0, 0, 0, 0, 0
  end
  now = now + offset
  if now < touched then
    offset = offset + touched - now
    now = touched
    stepped = true
  end
end
