--@needs format header now sub window
--@gives b cell everybody floor fresh here max min placed slot_of sqrt weights
-- Fairness: the accounts that a call looks at. Included where participants contend, inside of a
-- pcall. `header` begins the ledger, or is empty.
local floor, max, min, sqrt = math.floor, math.max, math.min, math.sqrt
local b = {header = header, accounts = {}, entries = {}, count = 1, appointed = 0, spare = 0, heavy = 0, grants = {}}
if header ~= '' then
  b.count, b.appointed = sub(header, @ledger.accounts) + 0, sub(header, @ledger.appointed) + 0
  b.spare, b.heavy = sub(header, @ledger.spare) + 0, sub(header, @ledger.heavy) + 0
end
local weights = header ~= '' and sub(header, @ledger.weights) + 0 or 0
b.stored, b.weights = b.count, weights
local placed = {} -- slots of accounts, by id
local cell, here = (now - now % window) / window, window - now % window

local function fresh(id, weight)
  return {
    id = id, weight = weight, seen = now, claim = 0, filled = now, credit = 0, cell = 0, used = 0, used_before = 0,
    unmet = 0, unmet_before = 0, due = 0, denied = 0, waited = 0, lent = 0,
  }
end
local function read_account(line)
  return {
    id = sub(line, @account.id), weight = sub(line, @account.weight) + 0, seen = sub(line, @account.seen) + 0,
    claim = sub(line, @account.claim) + 0, filled = sub(line, @account.filled) + 0,
    credit = sub(line, @account.credit) + 0, cell = sub(line, @account.cell) + 0,
    used = sub(line, @account.used) + 0, used_before = sub(line, @account.used_before) + 0,
    unmet = sub(line, @account.unmet) + 0, unmet_before = sub(line, @account.unmet_before) + 0,
    due = sub(line, @account.due) + 0, denied = sub(line, @account.denied) + 0,
    waited = sub(line, @account.waited) + 0, lent = sub(line, @account.lent) + 0,
  }
end
-- The account of those who have none of their own.
local function everybody()
  if not b.accounts[0] then
    b.accounts[0] = header == '' and fresh('@SHARED', @MILLI)
      or read_account(redis.call('GETRANGE', KEYS[#KEYS], '@ledger.bytes',
        format('%d', @ledger.bytes + @account.bytes - 1)))
  end
  return b.accounts[0]
end
--@include fair_counters
-- The slot of a participant's own account, or -1.
local function slot_of(id, slot)
  if placed[id] then
    return placed[id]
  end
  if slot > 0 and slot < b.stored then
    local from = @ledger.bytes + slot * @account.bytes
    local line = redis.call('GETRANGE', KEYS[#KEYS], format('%d', from), format('%d', from + @account.bytes - 1))
    if sub(line, @account.mark..id) == '@account.mark.form' .. id then
      b.accounts[slot] = read_account(line)
      return slot
    end
  end
  if b.stored > 1 then
    -- Once for all callers.
    b.all =
      b.all or redis.call('GETRANGE', KEYS[#KEYS], '0', format('%d', @ledger.bytes + b.stored * @account.bytes - 1))
    local from = string.find(b.all, '@account.mark.form' .. id, @ledger.bytes + @account.bytes + 1, true)
    if from then
      slot = (from - 1 - @ledger.bytes) / @account.bytes
      b.accounts[slot] = read_account(sub(b.all, from, from + @account.bytes - 1))
      return slot
    end
  end
  return -1
end
