--@needs accounts add find floor full id known max min now part read share sqrt tally text unmet
--@needs waiting weight whole window
--@gives a
-- Fairness: opens the account of a caller: what it reported, what it wants, and what credit has
-- come. `known` is its account as stored, if it has one.
local a = accounts[id] or known and read(known)
accounts[id] = a or nil
if not a then
  local function fresh(own)
    local new = whole(read('@account.weight..credit.zero'))
    new.weight, new.seen, new.changed = own, now, true
    return new
  end
  a = accounts['@SHARED']
  if not a then
    local all = redis.call('HMGET', KEYS[#KEYS], '@SHARED')[1]
    a = all and read(all) or not text and fresh(@MILLI)
    accounts['@SHARED'] = a
  end
  if full().count < @MAX_ACCOUNTS then
    tally.count = tally.count + 1
    accounts[id] = fresh(weight)
    find()
  end
end
if unmet > 0 then
  a.unmet, a.changed = min(whole(a).unmet + 2 * unmet, @MOST), true
end
local since = now - a.stated
if since < 0 or since * @STATEMENTS >= window or a.weight ~= weight then
  -- It says what it wants.
  add(whole(a), -1)
  local kept = window / (window + 2 * max(since, 0))
  a.used, a.unmet, a.waited = floor(a.used * kept), floor(a.unmet * kept), floor(a.waited * kept)
  if waiting > 0 then
    a.waited = a.waited + floor(@MILLI * (1 - kept))
  end
  local unhindered = floor(a.used * @MILLI / (@MILLI + 1 - a.waited))
  a.claim =
    min(max(a.used + a.unmet + waiting * @MILLI, unhindered), a.used * @BACKED_TIMES + @BACKED_MORE)
  a.weight, a.stated, a.heavy, a.longer, a.changed = weight, now, 1, 0, true
  add(a, 1)
  find()
  local e = part(a)
  if a.claim < e * @MILLI or (e == 0 and a.unmet == 0) then
    add(a, -1)
    a.heavy = 0
    add(a, 1)
    find()
  end
end
a.e, a.now, a.filled, a.refused, a.unserved = part(a), a.credit, a.seen, 0, 0
local rate = a.e == 0 and share or a.e
a.depth = max(@DEPTH_LEAST, @DEPTH_PART * rate, @DEPTH_ROOT * sqrt(rate))
a.full = floor(a.depth * @MICRO)
local gain = floor(rate * @MICRO * max(now - a.seen, 0) / window)
if gain >= @GRAIN or now < a.seen then
  a.now, a.filled = min(a.credit + gain, a.full), now
end
