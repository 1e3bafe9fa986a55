--@needs b floor max min now place pour record settle share slot_of sqrt
--@gives account_of fill save
-- Fairness outside of takes: the account of one participant. Included where participants contend,
-- inside of a pcall.
--@include fair_ledger
-- A participant's own account, nil if it has none.
local function account_of(id, slot)
  local a = b.accounts[slot_of(id, slot)]
  if a and a.cell == 0 then
    settle(a)
  end
  return a
end
-- Adds the credit that came since the last time. Returns the permits per window that the account is
-- paced at, 0 if nobody is held back, the most credit it can have, in millionths, and the most
-- while it books so many permits ahead (0: it does not).
local function fill(a, booking)
  local e = b.heavy == 0 and share or min(a.weight * b.spare / b.heavy / @MILLI, share)
  local limit = floor(max(@DEPTH_LEAST, @DEPTH_PART * e, @DEPTH_ROOT * sqrt(e)) * @MICRO)
  local capacity = limit + floor(max(booking - e, 0) * @MICRO)
  if b.heavy == 0 and a.credit >= 0 then
    a.credit, a.filled = limit, now
    return 0, limit, capacity
  end
  pour(a, e, b.heavy == 0 and limit or capacity)
  return b.heavy == 0 and 0 or e, limit, capacity
end
--@include fair_record
local function save()
  for slot, a in pairs(b.accounts) do
    redis.call('SETRANGE', KEYS[#KEYS], place(slot), record(a))
  end
end
