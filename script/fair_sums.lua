-- Fairness: reads the header of the ledger: the sums of the half window before, of this one and of
-- the next, of each what the light want and the weight of the heavy.
head, half = redis.pcall('HGET', KEYS[#KEYS], '@LEDGER'), (now * 2 - now * 2 % window) / window
sums = {0, 0, 0, 0, 0, 0}
if type(head) == 'table' or head and sub(head, 1, #'@LEDGER_KIND') ~= '@LEDGER_KIND'
  or not head and redis.call('EXISTS', KEYS[#KEYS]) == 1 then
  return {-1, #KEYS, head and head.err or nil} -- it is not ours
end
if head then
  local all = {numbers('@ledger.form', head, @ledger.count.from)}
  assert(#head == @ledger.bytes and all[1] <= @MAX_ACCOUNTS and max(unpack(all)) < 2 ^ 62)
  accounts, passed, opened = all[1], half - all[2], all[3]
  owed = floor(all[4] / 2 ^ max(passed, 0))
  for i = 1, passed >= 0 and 6 - 2 * passed or 0 do
    sums[i] = all[4 + i + 2 * passed]
  end
end
moved = moved or passed ~= 0
if passed ~= 0 and accounts >= @MAX_ACCOUNTS then -- whoever was silent for a window gives way
  local all, gone = redis.call('HGETALL', KEYS[#KEYS]), {'HDEL', KEYS[#KEYS]}
  for i = 1, #all, 2 do
    if all[i] ~= id and all[i] ~= '@LEDGER' and all[i] ~= '@SHARED'
      and now - numbers('@account.stated.form', all[i + 1], @account.stated.from) > window then
      gone[#gone + 1] = all[i]
    end
  end
  accounts = max(accounts - (#gone - 2), 0)
  if gone[3] then
    redis.call(unpack(gone))
  end
end
