--@needs accounts alone count find floor fresh half id known level max min now read share sqrt text unmet
--@needs waiting weight window
--@sets count
--@gives a
-- Fairness: opens the account of a caller: what it reported, what it wants, and what credit has
-- come. `known` is its account as stored, if it has one.
local a = accounts[id] or known and read(known)
accounts[id] = a or nil
if not a then
  a = accounts['@SHARED']
  if not a then
    local all = redis.call('HMGET', KEYS[#KEYS], '@SHARED')[1]
    a = all and read(all) or not text and fresh('@SHARED', @MILLI)
    accounts['@SHARED'] = a
  end
  if count < @MAX_ACCOUNTS then
    count = count + 1
    fresh(id, weight)
    find()
  end
end
if unmet > 0 then
  a.unmet, a.said, a.changed = min(a.unmet + 2 * unmet, @MOST), nil, true
end
local since = now - a.stated
if since < 0 or since * @STATEMENTS >= window or a.weight ~= weight then
  -- It says what it wants.
  local kept = window / (window + 2 * max(since, 0))
  a.used, a.unmet, a.waited = floor(a.used * kept), floor(a.unmet * kept), floor(a.waited * kept)
  if waiting > 0 then
    a.waited = a.waited + floor(@MILLI * (1 - kept))
  end
  local unhindered = floor(a.used * @MILLI / (@MILLI + 1 - a.waited))
  local claim = min(max(a.used + a.unmet + waiting * @MILLI, unhindered), a.used * @BACKED_TIMES + @BACKED_MORE)
  local e = alone > 0 and alone <= weight and 0 or min(weight * level / (@MILLI * @MICRO), share)
  if a.heavy > 0 and e > 0 and claim >= e * @MILLI and a.weight == weight
    and (a.stated * 2 - a.stated * 2 % window) / window == half then
    a.stated, a.claim, a.said, a.changed = now, claim, nil, true -- it counts as before
  else
    find(a, weight, claim, now, 1, 0)
    a.e = alone > 0 and alone <= weight and 0 or min(weight * level / (@MILLI * @MICRO), share)
    if claim < a.e * @MILLI or (a.e == 0 and a.unmet == 0) then
      find(a, weight, claim, now, 0, 0)
    end
  end
end
a.e = a.heavy > 0 and alone > 0 and alone <= a.weight and 0 or min(a.weight * level / (@MILLI * @MICRO), share)
local rate = a.e == 0 and share or a.e
a.depth = max(@DEPTH_LEAST, @DEPTH_PART * rate, @DEPTH_ROOT * sqrt(rate))
local full, gain = floor(a.depth * @MICRO), floor(rate * @MICRO * max(now - a.seen, 0) / window)
a.now, a.filled, a.refused, a.unserved = min(a.credit, full), a.seen, 0, 0
if gain >= @GRAIN or now < a.seen then
  a.now, a.filled = min(a.credit + gain, full), now
end
