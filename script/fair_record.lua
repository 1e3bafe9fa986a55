--@needs format
--@gives place record
-- Fairness: how an account is written, and where.
local function place(slot)
  return format('%d', @ledger.bytes + slot * @account.bytes)
end
local function record(a)
  return format('@account.form', a.id, a.weight, a.seen, a.claim, a.filled, a.credit, a.cell, a.used, a.used_before,
    a.unmet, a.unmet_before, a.due, a.denied, a.waited, a.lent)
end
