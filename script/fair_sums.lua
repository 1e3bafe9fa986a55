-- Fairness: reads the header of the ledger: the sums of the half window before, of this one and of
-- the next, of each what the light want and the weight of the heavy.
head, half = redis.pcall('HGET', KEYS[#KEYS], '@LEDGER'), (now * 2 - now * 2 % window) / window
sums = {0, 0, 0, 0, 0, 0}
if type(head) == 'table' or head and sub(head, @ledger.kind) ~= '@ledger.kind.form'
  or not head and redis.call('EXISTS', KEYS[#KEYS]) == 1 then
  return {-1, #KEYS, head and head.err or nil} -- it is not ours
end
if head then
  accounts, passed = sub(head, @ledger.count) + 0, half - sub(head, @ledger.half)
  local all = {
    sub(head, @ledger.light_before) + 0, sub(head, @ledger.heavy_before) + 0, sub(head, @ledger.light) + 0,
    sub(head, @ledger.heavy) + 0, sub(head, @ledger.light_next) + 0, sub(head, @ledger.heavy_next) + 0,
  }
  for i = 1, passed >= 0 and 6 - 2 * passed or 0 do
    sums[i] = all[i + 2 * passed]
  end
  assert(accounts + sums[1] + sums[2] + sums[3] + sums[4] + sums[5] + sums[6] < 2 ^ 62) -- not where one is no number
end
moved = moved or passed ~= 0
if passed ~= 0 and accounts >= @MAX_ACCOUNTS then -- whoever was silent for a window gives way
  local all, gone = redis.call('HGETALL', KEYS[#KEYS]), {'HDEL', KEYS[#KEYS]}
  for i = 1, #all, 2 do
    if all[i] ~= id and all[i] ~= '@LEDGER' and all[i] ~= '@SHARED'
      and now - sub(all[i + 1], @account.stated) > window then
      gone[#gone + 1] = all[i]
    end
  end
  accounts = accounts - (#gone - 2)
  if gone[3] then
    redis.call(unpack(gone))
  end
end
