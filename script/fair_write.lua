-- Fairness: writes down what changed of a caller's account, and of the header.
if changed or prefix or moved then
  local said = (prefix or sub(account, @account.weight..rate)) .. (heavy and '1' or '0') .. (longer and '1' or '0')
    .. format('@account.unmet..empty.form', denied, used, empty)
  if moved then
    redis.pcall('HSET', KEYS[#KEYS], whose, said, '@LEDGER', format('@ledger.form', accounts, half, unpack(sums)))
    if not head then
      redis.pcall('PEXPIRE', KEYS[#KEYS], format('%d', sub(ARGV[2], @terms.life) + 0))
    end
  else
    redis.pcall('HSET', KEYS[#KEYS], whose, said)
  end
end
