--@needs add find full ids now read share stored tally whole window
--@sets stored
-- Fairness: where a name is new and the ledger is full, makes room, at most once a window. Whoever
-- was silent for a window gives way, and whoever wants hardly anything.
local lacking = false
for n = 1, #ids do
  lacking = lacking or not stored[n + 1]
end
if lacking and full().count >= @MAX_ACCOUNTS and (now < tally.searched or now - tally.searched >= window) then
  local all, gone = redis.call('HGETALL', KEYS[#KEYS]), {'HDEL', KEYS[#KEYS]}
  for i = 1, #all, 2 do
    local a = #all[i] == 16 and all[i] ~= '@SHARED' and whole(read(all[i + 1]))
    if a and (now - a.stated > window or a.claim * @HARDLY * @MAX_ACCOUNTS < share * @MILLI) then
      add(a, -1)
      gone[#gone + 1] = all[i]
    end
  end
  tally.count, tally.searched = tally.count - (#gone - 2), now
  find()
  if gone[3] then
    redis.call(unpack(gone))
    stored = redis.call('HMGET', KEYS[#KEYS], '@LEDGER', unpack(ids))
  end
end
