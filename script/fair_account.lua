--@needs format header now pour settle share sub window
--@gives MOST accounts ceil cell count everybody fill find floor fresh here max min save stored
--@gives weights
-- Fairness outside of takes: an account of the book. To be included where participants contend, inside of a pcall; wants header, which begins the book or
-- is empty. The functions are those of fair.lua, and their arithmetic that of fairness.Book.
local floor, ceil, max, min, sqrt = math.floor, math.ceil, math.max, math.min, math.sqrt
local HEADER, RECORD, MOST = 151, 225, 1024
local RECORD_FORM = '#%s%7d%16d%16d%16d%20d%13d%13d%13d%16d%16d%16d%16d%10d%20d'
local count, spare, heavy, weights = 1, 0, 0, 0
if header ~= '' then
  count, spare, heavy, weights = sub(header, 5, 9) + 0, sub(header, 26, 41) + 0, sub(header, 42, 52) + 0, sub(header, 141, 151) + 0
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
    id = sub(text, 2, 17), weight = sub(text, 18, 24) + 0, seen = sub(text, 25, 40) + 0, claim = sub(text, 41, 56) + 0,
    filled = sub(text, 57, 72) + 0, credit = sub(text, 73, 92) + 0, cell = sub(text, 93, 105) + 0, used = sub(text, 106, 118) + 0,
    used_before = sub(text, 119, 131) + 0, turned = sub(text, 132, 147) + 0, turned_before = sub(text, 148, 163) + 0,
    due = sub(text, 164, 179) + 0, denied = sub(text, 180, 195) + 0,
    waited = sub(text, 196, 205) + 0, saved = sub(text, 206, 225) + 0,
  }
end
local function everybody()
  if not accounts[0] then
    accounts[0] = header == '' and fresh('****************', 1000)
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
    if sub(text, 1, 17) == '#' .. id then
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
  local e = heavy == 0 and share or min(a.weight * spare / heavy / 1000, share)
  local full = floor(max(2, 0.15 * e, 1.5 * sqrt(e)) * 1000000)
  local capacity = full + floor(max(booking - e, 0) * 1000000)
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
