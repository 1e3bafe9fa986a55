-- Fairness: writes down what changed of a caller's account, and of the header.
if changed or moved then
  local said = pack('@account.form', known, stated, claim, waited, rate, heavy and 1 or 0, longer and 1 or 0, denied,
    used, empty)
  if moved then
    redis.pcall('HSET', KEYS[#KEYS], whose, said,
      '@LEDGER', '@LEDGER_KIND' .. pack('@ledger.form', accounts, half, unpack(sums)))
    if not head then
      redis.pcall('PEXPIRE', KEYS[#KEYS], format('%d', @LIFE + 0))
    end
  else
    redis.pcall('HSET', KEYS[#KEYS], whose, said)
  end
end
