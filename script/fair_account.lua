--@needs format header now pour settle share sub window
--@gives MOST accounts ceil cell count everybody fill find floor fresh here max min save stored
--@gives weights
-- Fairness outside of takes: an account of the book. To be included where participants contend, inside of a pcall; wants header, which begins the book or
-- is empty. The functions are those of fair.lua, and their arithmetic that of fairness.Book.
local floor, ceil, max, min, sqrt = math.floor, math.ceil, math.max, math.min, math.sqrt
local HEADER, RECORD, MOST = @book.bytes, @account.bytes, @MAX_ACCOUNTS
local RECORD_FORM = '@account.form'
local count, spare, heavy, weights = 1, 0, 0, 0
if header ~= '' then
  count, spare, heavy, weights = sub(header, @book.accounts) + 0, sub(header, @book.spare) + 0, sub(header, @book.heavy) + 0, sub(header, @book.weights) + 0
end
local stored = count
local accounts = {} -- by slot: those looked at
local cell, here = (now - now % window) / window, window - now % window

local function place(slot)
  return format('%d', HEADER + slot * RECORD)
end
local function fresh(id, weight)
  return {id = id, weight = weight, seen = now, claim = 0, filled = now, credit = 0, cell = 0, used = 0, used_before = 0, turned = 0, turned_before = 0, due = 0, denied = 0, waited = 0, saved = 0}
end
local function parse(text)
  return {
    id = sub(text, @account.id), weight = sub(text, @account.weight) + 0, seen = sub(text, @account.seen) + 0, claim = sub(text, @account.claim) + 0,
    filled = sub(text, @account.filled) + 0, credit = sub(text, @account.credit) + 0, cell = sub(text, @account.cell) + 0, used = sub(text, @account.used) + 0,
    used_before = sub(text, @account.used_before) + 0, turned = sub(text, @account.turned) + 0, turned_before = sub(text, @account.turned_before) + 0,
    due = sub(text, @account.due) + 0, denied = sub(text, @account.denied) + 0,
    waited = sub(text, @account.waited) + 0, saved = sub(text, @account.saved) + 0,
  }
end
local function everybody()
  if not accounts[0] then
    accounts[0] = header == '' and fresh('@SHARED', @MILLI)
      or parse(redis.call('GETRANGE', KEYS[#KEYS], place(0), format('%d', HEADER + RECORD - 1)))
  end
  return accounts[0]
end
--@include fair_counters
-- A participant's own account and its slot, nil if it has none.
local function find(id, slot)
  local a
  if slot > 0 and slot < stored then
    local text = redis.call('GETRANGE', KEYS[#KEYS], place(slot), format('%d', HEADER + (slot + 1) * RECORD - 1))
    if sub(text, @account.mark..id) == '#' .. id then
      a = parse(text)
    end
  end
  if not a and stored > 1 then
    local all = redis.call('GETRANGE', KEYS[#KEYS], '0', format('%d', HEADER + stored * RECORD - 1))
    local at = string.find(all, '#' .. id, HEADER + RECORD + 1, true)
    if at then
      slot = (at - 1 - HEADER) / RECORD
      a = parse(sub(all, at, at + RECORD - 1))
    end
  end
  if not a then
    return nil
  end
  accounts[slot] = a
  if a.cell == 0 then
    local s = everybody()
    settle(a, s)
    s.seen = now
  end
  return a
end
-- Adds the credit that came since the last time. Returns the permits per window that the account is paced at, 0 if nobody is held back, the most
-- credit it can have, in millionths, and the most while it books so many permits ahead (0: it does not).
local function fill(a, booking)
  local e = heavy == 0 and share or min(a.weight * spare / heavy / @MILLI, share)
  local full = floor(max(@DEPTH_LEAST, @DEPTH_PART * e, @DEPTH_ROOT * sqrt(e)) * @MICRO)
  local capacity = full + floor(max(booking - e, 0) * @MICRO)
  if heavy == 0 and a.credit >= 0 then
    a.credit, a.filled = full, now
    return 0, full, capacity
  end
  pour(a, e, heavy == 0 and full or capacity)
  return heavy == 0 and 0 or e, full, capacity
end
local function save()
  for slot, a in pairs(accounts) do
    redis.call('SETRANGE', KEYS[#KEYS], place(slot),
      format(RECORD_FORM, a.id, a.weight, a.seen, a.claim, a.filled, a.credit, a.cell, a.used, a.used_before, a.turned, a.turned_before, a.due, a.denied, a.waited, a.saved))
  end
end
