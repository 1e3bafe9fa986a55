--@needs format ids now share stored sub window
--@sets stored
--@gives accounts alone count find floor fresh half level max min pay read save sqrt stay text
-- Fairness: the ledger, a hash of a header and an account of each participant. What the numbers
-- mean and why says fairness/ledger.go, to which this is equal bit for bit. Included where
-- participants contend, inside of a pcall: a ledger that is damaged is thrown away.
--
-- A call reads and writes the accounts of its callers. Most calls state no claim: they need the
-- level, and not the sums.
-- Of each column: name(bytes), behind where it begins, counted from 1.
--@layout ledger
--@layout sum
--@layout account
local floor, max, min, sqrt = math.floor, math.max, math.min, math.sqrt
local accounts = {} -- of callers, by id
local text, half = stored[1], (now * 2 - now * 2 % window) / window
local level, alone, count, searched = 0, 0, 0, 0
local sums -- if they are read: light and heavy of the half window before, of this one and the next
-- Has an account, if there is one, count otherwise in the sum of the half window of its claim. Then
-- finds the level.
local function find(a, weight, claim, stated, heavy, longer)
  if not sums then
    sums = {0, 0, 0, 0, 0, 0}
    local passed = text and half - sub(text, @ledger.half) or 3
    if text then
      count, searched = sub(text, @ledger.count) + 0, sub(text, @ledger.searched) + 0
    end
    for i = 1, passed >= 0 and 3 - passed or 0 do
      local at = @ledger.bytes + 1 + @sum.bytes * (i - 1 + passed)
      sums[2 * i - 1], sums[2 * i] = sub(text, @sum.light[at]) + 0, sub(text, @sum.heavy[at]) + 0
    end
  end
  for sign = a and -1 or 3, 1, 2 do
    local i = (a.stated * 2 - a.stated * 2 % window) / window + a.longer - half + 2
    if i >= 1 and i <= 3 then
      local at, own = 2 * i - 1, a.claim
      if a.heavy > 0 then
        at, own = 2 * i, a.weight
      end
      sums[at] = max(sums[at] + sign * own, 0) -- less where the clock was set back
    end
    if sign < 0 then
      a.weight, a.claim, a.stated, a.heavy, a.longer = weight, claim, stated, heavy, longer
      a.said, a.changed = nil, true
    end
  end
  local light, among = sums[1] + sums[3] + sums[5], sums[2] + sums[4] + sums[6]
  local spare = share * @MILLI - light
  assert(light + among + count + searched < 2 ^ 62) -- not where one is no number
  level, alone = 0, 0
  if count >= 2 and (among > 0 or spare < 0) then
    alone = light == 0 and among or 0
    if among == 0 or spare <= 0 then
      spare, among = share * @MILLI, count * @MILLI
    end
    level = floor(min(spare * @MICRO / among, @DEEPEST))
  end
end
if text and sub(text, @ledger.half) + 0 == half then
  level, alone = sub(text, @ledger.level) + 0, sub(text, @ledger.alone) + 0
  assert(level + alone < 2 ^ 62)
else
  find()
end
-- `said` is the account's text, as long as nothing of it changed. `changed` and what follows are
-- of the call under way.
local function read(text)
  local a = {
    said = text, weight = sub(text, @account.weight) + 0,
    stated = sub(text, @account.stated) + 0, unmet = sub(text, @account.unmet) + 0,
    waited = sub(text, @account.waited) + 0, claim = sub(text, @account.claim) + 0,
    heavy = sub(text, @account.heavy) + 0, longer = sub(text, @account.longer) + 0,
    used = sub(text, @account.used) + 0, seen = sub(text, @account.seen) + 0, credit = sub(text, @account.credit) + 0,
    changed = false, e = 0, now = 0, filled = 0, refused = 0, unserved = 0, depth = 0,
  }
  assert(a.weight + a.stated + a.unmet + a.waited + a.claim + a.used + a.seen + a.credit < 2 ^ 62
    and #text == @account.bytes)
  return a
end
-- Has a new account written down.
local function fresh(id, weight)
  local a = read('@account.weight..credit.zero')
  a.weight, a.seen, a.said, a.changed, accounts[id] = weight, now, nil, true, a
  return a
end
local function pay(a, permits)
  a.used, a.changed = min(a.used + 2 * permits * @MILLI, @MOST), true
  if a.e > 0 then
    a.now = max(a.now - permits * @MICRO, -@DEEPEST)
    a.credit, a.seen = a.now, a.filled
  end
end
-- Has an account that was refused count half a window longer, and as heavy if it lacks permits.
local function stay(a)
  local lacks = a.heavy == 0 and a.waited * 2 > @MILLI and a.refused > 0 and a.now >= a.refused * @MICRO
  if a.longer == 0 or lacks then
    find(a, a.weight, a.claim, a.stated, lacks and 1 or a.heavy, 1)
  end
end
-- Writes down what changed.
local function save()
  local words = {'HSET', KEYS[#KEYS]}
  if sums then
    words[3], words[4] = '@LEDGER', format('@ledger.form@sum.form@sum.form@sum.form',
      count, half, level, alone, searched, unpack(sums))
  end
  for id, a in pairs(accounts) do
    if a.changed then
      words[#words + 1] = id
      words[#words + 1] = (a.said and sub(a.said, @account.weight..heavy)
        or format('@account.weight..heavy.form', a.weight, a.stated, a.unmet, a.waited, a.claim, a.heavy))
        .. format('@account.longer..credit.form', a.longer, a.used, a.seen, a.credit)
    end
  end
  if words[3] then
    redis.pcall(unpack(words))
  end
  return not text
end
-- Where a name is new and the ledger is full, makes room, at most once a window. Whoever was silent
-- for a window gives way, and whoever wants hardly anything.
local lacking = false
for n = 1, #ids do
  lacking = lacking or not stored[n + 1]
end
if lacking then
  find()
end
if lacking and count >= @MAX_ACCOUNTS and (now < searched or now - searched >= window) then
  local all, gone = redis.call('HGETALL', KEYS[#KEYS]), {'HDEL', KEYS[#KEYS]}
  for i = 1, #all, 2 do
    local a = #all[i] == 16 and all[i] ~= '@SHARED' and read(all[i + 1])
    if a and (now - a.stated > window or a.claim * @HARDLY * @MAX_ACCOUNTS < share * @MILLI) then
      find(a, 0, 0, a.stated, a.heavy, a.longer)
      gone[#gone + 1] = all[i]
    end
  end
  count, searched = count - (#gone - 2), now
  find()
  if gone[3] then
    redis.call(unpack(gone))
    stored = redis.call('HMGET', KEYS[#KEYS], '@LEDGER', unpack(ids))
  end
end
