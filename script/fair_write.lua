-- Fairness: writes down what changed of a caller's account, and of the header.
if changed or h and h.moved then
  local said = pack('@account.form', weight, stated, claim, waited, rate, heavy and 1 or 0, longer and 1 or 0, denied,
    used, empty)
  if h and h.moved then
    redis.pcall('HSET', KEYS[#KEYS], whose, said,
      '@LEDGER', '@LEDGER_KIND' .. pack('@ledger.form', h.accounts, h.half, h.opened, h.owed, unpack(h.sums)))
    if not h.stored then
      redis.pcall('PEXPIRE', KEYS[#KEYS], @LIFE)
    end
  else
    redis.pcall('HSET', KEYS[#KEYS], whose, said)
  end
end
