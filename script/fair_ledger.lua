--@needs format ids now share stored sub window
--@gives accounts allow b full max min note open part pay read save texts
-- Fairness: the ledger, a hash of a header and an account of each participant. What the numbers
-- mean and why says fairness/ledger.go, to which this is equal bit for bit. Included where
-- participants contend, inside of a pcall: a ledger that is damaged is thrown away.
--
-- Of each column: name(bytes), behind where it begins, counted from 1.
--@layout ledger
--@layout sum
--@layout account
local floor, max, min, sqrt = math.floor, math.max, math.min, math.sqrt
local b = {count = 0, searched = 0, entries = {}, changed = true, begins = not stored[1]}
local texts, accounts = {}, {} -- by id: as stored, and read
local light, rest, heavy, weights = {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}
local half = (now * 2 - now * 2 % window) / window
for i, id in ipairs(ids) do
  texts[id] = stored[i + 1]
end
local function fresh(weight)
  return {weight = weight, seen = now, credit = 0, stated = 0, used = 0, unmet = 0, waited = 0, claim = 0, heavy = 0,
    refused = 0}
end
local function read(text)
  local a = {
    weight = sub(text, @account.weight) + 0, seen = sub(text, @account.seen) + 0,
    credit = sub(text, @account.credit) + 0, stated = sub(text, @account.stated) + 0,
    used = sub(text, @account.used) + 0, unmet = sub(text, @account.unmet) + 0,
    waited = sub(text, @account.waited) + 0, claim = sub(text, @account.claim) + 0,
    heavy = sub(text, @account.heavy) + 0, refused = sub(text, @account.refused) + 0,
  }
  -- not where one is no number
  assert(a.weight + a.seen + a.credit + a.stated + a.used + a.unmet + a.waited + a.claim < 2 ^ 62)
  return a
end
if stored[1] then
  local text = stored[1]
  b.count, b.searched = sub(text, @ledger.count) + 0, sub(text, @ledger.searched) + 0
  local passed = half - sub(text, @ledger.half)
  b.changed = passed ~= 0
  for i = 1, passed >= 0 and 3 - passed or 0 do
    local at = @ledger.bytes + 1 + @sum.bytes * (i - 1 + passed)
    light[i], rest[i], heavy[i], weights[i] = sub(text, @sum.light[at]) + 0, sub(text, @sum.rest[at]) + 0,
      sub(text, @sum.heavy[at]) + 0, sub(text, @sum.weight[at]) + 0
  end
  assert(b.count + b.searched + light[1] + light[2] + light[3] + rest[1] + weights[1] < 2 ^ 62)
else
  accounts['@SHARED'] = fresh(@MILLI)
end

-- Counts an account in the sum of the half window of its claim, or takes it out of that.
local function add(a, sign)
  local i = (a.stated * 2 - a.stated * 2 % window) / window + a.refused - half + 2
  if i < 1 or i > 3 then
    return
  end
  b.changed = true
  weights[i] = max(weights[i] + sign * a.weight, 0) -- less where the clock was set back
  if a.heavy > 0 then
    heavy[i], rest[i] = max(heavy[i] + sign * a.weight, 0), max(rest[i] + sign * a.claim, 0)
  else
    light[i] = max(light[i] + sign * a.claim, 0)
  end
end
-- The permits a window that an account is entitled to; 0: nobody has to be held back.
local function part(a)
  local capacity, among, weight = share * @MILLI, heavy[1] + heavy[2] + heavy[3], weights[1] + weights[2] + weights[3]
  local low = light[1] + light[2] + light[3]
  local spare = capacity - low
  if b.count < 2 or weight <= a.weight or low + (rest[1] + rest[2] + rest[3]) <= capacity then
    return 0
  end
  if among == 0 or spare <= 0 then
    spare, among = capacity, weight
  end
  return min(a.weight * spare / among / @MILLI, share)
end
-- The most credit of one that is entitled to e permits a window, in permits and in millionths.
local function full(e)
  local depth = max(@DEPTH_LEAST, @DEPTH_PART * e, @DEPTH_ROOT * sqrt(e))
  return depth, floor(depth * @MICRO)
end
-- Has an account say what it wants.
local function state(a, weight, waiting)
  add(a, -1)
  local kept = window / (window + 2 * max(now - a.stated, 0))
  a.used, a.unmet, a.waited = floor(a.used * kept), floor(a.unmet * kept), floor(a.waited * kept)
  if waiting > 0 then
    a.waited = a.waited + floor(@MILLI * (1 - kept))
  end
  local before = a.refused > 0 and floor(a.claim * window / (window + max(now - a.stated, 0))) or 0
  local unhindered = floor(a.used * @MILLI / (@MILLI + 1 - a.waited))
  a.claim = max(before, min(max(a.used + a.unmet + waiting * @MILLI, unhindered),
    a.used * @BACKED_TIMES + @BACKED_MORE))
  a.weight, a.stated, a.heavy = weight, now, 1
  add(a, 1)
  if a.claim < part(a) * @MILLI then
    add(a, -1)
    a.heavy = 0
    add(a, 1)
  end
end
-- Notes whether an account was refused.
local function note(a, refused)
  if refused ~= (a.refused > 0) then
    add(a, -1)
    a.refused = 1 - a.refused
    add(a, 1)
  end
end
-- Looks for room in a full ledger.
for _, id in ipairs(b.count >= @MAX_ACCOUNTS and not (now >= b.searched and now - b.searched < window) and ids or {}) do
  if not texts[id] then
    local all, gone = redis.call('HGETALL', KEYS[#KEYS]), {}
    for i = 1, #all, 2 do
      local a = #all[i] == 16 and all[i] ~= '@SHARED' and read(all[i + 1])
      if a and (now - a.stated > window or a.claim * @HARDLY * @MAX_ACCOUNTS < share * @MILLI) then
        add(a, -1)
        gone[#gone + 1], texts[all[i]] = all[i], false
      end
    end
    b.count, b.searched, b.changed = b.count - #gone, now, true
    if #gone > 0 then
      redis.call('HDEL', KEYS[#KEYS], unpack(gone))
    end
    break
  end
end
-- Opens the account of a caller: what it reported, what it wants, and what credit has come.
local function open(id, weight, unmet, waiting)
  local a = accounts[id] or texts[id] and read(texts[id])
  accounts[id] = a or nil
  if not a then
    a = accounts['@SHARED'] or read(redis.call('HMGET', KEYS[#KEYS], '@SHARED')[1])
    accounts['@SHARED'] = a
    if b.count < @MAX_ACCOUNTS then
      b.count, b.changed, accounts[id] = b.count + 1, true, fresh(weight)
    end
  end
  a.unmet = min(a.unmet + 2 * unmet, @MOST)
  local since = now - a.stated
  if since < 0 or since * @STATEMENTS >= window or a.weight ~= weight then
    state(a, weight, waiting)
  end
  local e = part(a)
  local rate = e == 0 and share or e
  local depth, limit = full(rate)
  local gain = floor(rate * @MICRO * max(now - a.seen, 0) / window)
  if e == 0 and a.credit >= 0 then
    a.credit, a.seen = limit, now
  elseif gain >= @GRAIN or now < a.seen then
    a.credit, a.seen = min(a.credit + gain, limit), now
  end
  local entry = {a = a, e = e, depth = depth, full = limit, refused = 0, unserved = 0}
  b.entries[#b.entries + 1] = entry
  return entry
end
-- How many of so many asks are granted out of left permits.
local headroom = @HEADROOM_PART * share >= 1 and @HEADROOM_PART * share or 0
b.headroom = headroom
local function allow(entry, size, count, left)
  local fit = min(count, floor(left / size))
  if entry.e == 0 or fit == 0 then
    return fit
  end
  local credit, slope = entry.a.credit / @MICRO, headroom / entry.depth
  local allowed = floor(min(credit, floor((left - headroom + slope * (credit + 1)) / (1 + slope))) / size)
  if allowed < 1 and (entry.a.credit >= entry.full or entry.a.claim < entry.e * @MILLI and entry.a.credit >= 0) then
    allowed = 1
  end
  return max(0, min(fit, allowed))
end
local function pay(entry, permits)
  local a = entry.a
  a.used = min(a.used + 2 * permits * @MILLI, @MOST)
  if entry.e > 0 then
    a.credit = max(a.credit - permits * @MICRO, -@DEEPEST)
  end
end
-- Writes down what changed.
local function save()
  local words = {'HSET', KEYS[#KEYS]}
  if b.changed then
    words[3] = '@LEDGER'
    words[4] = format('@ledger.form@sum.form@sum.form@sum.form', b.count, half, b.searched, light[1],
      rest[1], heavy[1], weights[1], light[2], rest[2], heavy[2], weights[2], light[3], rest[3], heavy[3], weights[3])
  end
  for id, a in pairs(accounts) do
    words[#words + 1] = id
    words[#words + 1] = format('@account.form', a.weight, a.seen, a.credit, a.stated, a.used, a.unmet, a.waited,
      a.claim, a.heavy, a.refused)
  end
  redis.call(unpack(words))
  if b.begins then
    redis.call('PEXPIRE', KEYS[#KEYS], format('%d', sub(ARGV[2], @terms.life) + 0))
  end
end
