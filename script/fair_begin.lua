--@needs b format appointed record sub
-- Fairness: begins a ledger with the account of those who have none of their own.
redis.call('SET', KEYS[#KEYS], format('@ledger.form', 1, appointed, 0, 0, -1, 0, 0, 0, 0, 0, 0, 0)
  .. record(b.accounts[0]),
  'PX', format('%d', sub(ARGV[2], @terms.life) + 0))
