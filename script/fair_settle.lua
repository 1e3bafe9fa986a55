-- Fairness, in a full take, after the grants are written: tells how many of each group were
-- granted, and after how many us each caller should come back. The ledger lives for a little
-- more than two windows.
if got.begun then
  redis.pcall('DEL', KEYS[#KEYS])
end
if got.contending then
  for i = 1, #got.told do
    reply[#reply + 1] = got.told[i]
  end
  if got.mark then
    redis.pcall('PEXPIRE', KEYS[#KEYS], @LIFE)
  end
end
