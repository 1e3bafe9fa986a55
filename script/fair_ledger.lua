--@needs format now share stored sub window
--@gives accounts add find floor full max min part pay read save sqrt stay tally text whole
-- Fairness: the ledger, a hash of a header and an account of each participant. What the numbers
-- mean and why says fairness/ledger.go, to which this is equal bit for bit. Included where
-- participants contend, inside of a pcall: a ledger that is damaged is thrown away.
--
-- Most calls state no claim. They need the level and the last columns of an account, and only
-- these are read and written.
-- Of each column: name(bytes), behind where it begins, counted from 1.
--@layout ledger
--@layout sum
--@layout account
local floor, max, min, sqrt = math.floor, math.max, math.min, math.sqrt
local accounts = {} -- of callers, by id
local text, half = stored[1], (now * 2 - now * 2 % window) / window
local level, alone, tally = 0, 0, nil -- the tally is read where sums change
-- Finds the level.
local function find()
  local light, heavy = tally.light, tally.heavy
  local low, among = light[1] + light[2] + light[3], heavy[1] + heavy[2] + heavy[3]
  local spare = share * @MILLI - low
  level, alone, tally.changed = 0, 0, true
  if tally.count >= 2 and (among > 0 or spare < 0) then
    alone = low == 0 and among or 0
    if among == 0 or spare <= 0 then
      spare, among = share * @MILLI, tally.count * @MILLI
    end
    level = floor(min(spare * @MICRO / among, @DEEPEST))
  end
end
-- Reads the sums.
local function full()
  if tally then
    return tally
  end
  tally = {count = 0, searched = 0, light = {0, 0, 0}, heavy = {0, 0, 0}}
  local passed = text and half - sub(text, @ledger.half) or 0
  if text then
    tally.count, tally.searched = sub(text, @ledger.count) + 0, sub(text, @ledger.searched) + 0
    for i = 1, passed >= 0 and 3 - passed or 0 do
      local at = @ledger.bytes + 1 + @sum.bytes * (i - 1 + passed)
      tally.light[i], tally.heavy[i] = sub(text, @sum.light[at]) + 0, sub(text, @sum.heavy[at]) + 0
      assert(tally.light[i] + tally.heavy[i] < 2 ^ 62) -- not where one is no number
    end
    assert(tally.count + tally.searched < 2 ^ 62)
  end
  if passed ~= 0 or not text then
    find()
  end
  return tally
end
if text and sub(text, @ledger.half) + 0 == half then
  level, alone = sub(text, @ledger.level) + 0, sub(text, @ledger.alone) + 0
  assert(level + alone < 2 ^ 62)
else
  full()
end
local function read(text)
  local a = {
    text = text, weight = sub(text, @account.weight) + 0, stated = sub(text, @account.stated) + 0,
    heavy = sub(text, @account.heavy) + 0, longer = sub(text, @account.longer) + 0, used = sub(text, @account.used) + 0,
    seen = sub(text, @account.seen) + 0, credit = sub(text, @account.credit) + 0,
  }
  assert(a.weight + a.seen + a.credit + a.stated + a.used < 2 ^ 62 and #text == @account.bytes)
  return a
end
-- Reads the rest of an account.
local function whole(a)
  if not a.claim then
    a.unmet, a.waited, a.claim =
      sub(a.text, @account.unmet) + 0, sub(a.text, @account.waited) + 0, sub(a.text, @account.claim) + 0
    assert(a.unmet + a.waited + a.claim < 2 ^ 62)
  end
  return a
end
-- Counts an account in the sum of the half window of its claim, or takes it out of that.
local function add(a, sign)
  local i = (a.stated * 2 - a.stated * 2 % window) / window + a.longer - half + 2
  if i >= 1 and i <= 3 then
    local sums, own = full().light, whole(a).claim
    if a.heavy > 0 then
      sums, own = tally.heavy, a.weight
    end
    sums[i], tally.changed = max(sums[i] + sign * own, 0), true -- less where the clock was set back
  end
end
-- Has an account that was refused count half a window longer, and as heavy if it lacks permits.
local function stay(a)
  local lacks = a.heavy == 0 and a.refused > 0 and a.now >= a.refused * @MICRO and whole(a).waited * 2 > @MILLI
  if a.longer == 0 or lacks then
    add(a, -1)
    a.longer, a.changed = 1, true
    if lacks then
      a.heavy = 1
    end
    add(a, 1)
    full()
    find()
  end
end
-- The permits a window that an account is entitled to; 0: it need not be held back.
local function part(a)
  if a.heavy > 0 and alone > 0 and alone <= a.weight then
    return 0
  end
  return min(a.weight * level / (@MILLI * @MICRO), share)
end
local function pay(a, permits)
  a.used, a.changed = min(a.used + 2 * permits * @MILLI, @MOST), true
  if a.e > 0 then
    a.now = max(a.now - permits * @MICRO, -@DEEPEST)
    a.credit, a.seen = a.now, a.filled
  end
end
-- Writes down what changed.
local function save()
  local words = {'HSET', KEYS[#KEYS]}
  if tally and tally.changed then
    local light, heavy = tally.light, tally.heavy
    words[3] = '@LEDGER'
    words[4] = format('@ledger.form@sum.form@sum.form@sum.form', tally.count, half, level, alone, tally.searched,
      light[1], heavy[1], light[2], heavy[2], light[3], heavy[3])
  end
  for id, a in pairs(accounts) do
    if a.changed then
      words[#words + 1] = id
      words[#words + 1] = (a.claim and format('@account.weight..heavy.form', a.weight, a.stated, a.unmet, a.waited,
        a.claim, a.heavy) or sub(a.text, @account.weight..heavy)) .. format('@account.longer..credit.form', a.longer,
        a.used, a.seen, a.credit)
    end
  end
  if words[3] then
    redis.pcall(unpack(words))
  end
  return not text
end
