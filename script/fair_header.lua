-- Fairness: reads the header of the ledger: what the light want and the weight of the heavy, of the
-- half window before, of this one and of the next. It raises an error where the ledger is damaged,
-- and where it is not ours; that is the reply then.
local function header(id, now, window)
  local floor, max = math.floor, math.max
  local text, half = redis.pcall('HGET', KEYS[#KEYS], '@LEDGER'), (now * 2 - now * 2 % window) / window
  if type(text) == 'table' or text and string.sub(text, 1, #'@LEDGER_KIND') ~= '@LEDGER_KIND'
    or not text and redis.call('EXISTS', KEYS[#KEYS]) == 1 then
    error({-1, #KEYS, text and text.err or nil}) -- it is not ours
  end
  local h, passed = {stored = text, half = half, accounts = 0, opened = now, owed = 0, sums = {0, 0, 0, 0, 0, 0}}, 3
  if text then
    local all = {numbers('@ledger.form', text, @ledger.count.from)}
    assert(#text == @ledger.bytes and all[1] <= @MAX_ACCOUNTS and max(unpack(all)) < 2 ^ 62)
    h.accounts, passed, h.opened = all[1], half - all[2], all[3]
    h.owed = floor(all[4] / 2 ^ max(passed, 0))
    for i = 1, passed >= 0 and 6 - 2 * passed or 0 do
      h.sums[i] = all[4 + i + 2 * passed]
    end
  end
  h.moved = passed ~= 0
  if h.moved and h.accounts >= @MAX_ACCOUNTS then -- whoever was silent for a window gives way
    local all, gone = redis.call('HGETALL', KEYS[#KEYS]), {'HDEL', KEYS[#KEYS]}
    for i = 1, #all, 2 do
      if all[i] ~= id and all[i] ~= '@LEDGER' and all[i] ~= '@SHARED'
        and now - numbers('@account.stated.form', all[i + 1], @account.stated.from) > window then
        gone[#gone + 1] = all[i]
      end
    end
    h.accounts = max(h.accounts - (#gone - 2), 0)
    if gone[3] then
      redis.call(unpack(gone))
    end
  end
  return h
end
