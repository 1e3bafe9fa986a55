--@needs format now share stored sub window
--@gives accounts add floor max min part pay read save sqrt stay tally
-- Fairness: the ledger, a hash of a header and an account of each participant. What the numbers
-- mean and why says fairness/ledger.go, to which this is equal bit for bit. Included where
-- participants contend, inside of a pcall: a ledger that is damaged is thrown away.
--
-- Of each column: name(bytes), behind where it begins, counted from 1.
--@layout ledger
--@layout sum
--@layout account
local floor, max, min, sqrt = math.floor, math.max, math.min, math.sqrt
local accounts = {} -- of callers, by id
local tally = {count = 0, searched = 0, changed = true, begins = not stored[1]}
local light, heavy = {0, 0, 0}, {0, 0, 0}
local half = (now * 2 - now * 2 % window) / window
local function read(text)
  local a = {
    weight = sub(text, @account.weight) + 0, stated = sub(text, @account.stated) + 0,
    unmet = sub(text, @account.unmet) + 0, waited = sub(text, @account.waited) + 0,
    claim = sub(text, @account.claim) + 0, heavy = sub(text, @account.heavy) + 0,
    longer = sub(text, @account.longer) + 0, used = sub(text, @account.used) + 0,
    seen = sub(text, @account.seen) + 0, credit = sub(text, @account.credit) + 0,
  }
  -- not where one is no number
  assert(a.weight + a.seen + a.credit + a.stated + a.used + a.unmet + a.waited + a.claim < 2 ^ 62)
  return a
end
if stored[1] then
  local text = stored[1]
  local passed = half - sub(text, @ledger.half)
  tally.count, tally.searched, tally.changed = sub(text, @ledger.count) + 0, sub(text, @ledger.searched) + 0, passed ~= 0
  for i = 1, passed >= 0 and 3 - passed or 0 do
    local at = @ledger.bytes + 1 + @sum.bytes * (i - 1 + passed)
    light[i], heavy[i] = sub(text, @sum.light[at]) + 0, sub(text, @sum.heavy[at]) + 0
  end
  assert(tally.count + tally.searched + light[1] + light[2] + light[3] + heavy[1] + heavy[2] + heavy[3] < 2 ^ 62)
end
-- Counts an account in the sum of the half window of its claim, or takes it out of that.
local function add(a, sign)
  local i = (a.stated * 2 - a.stated * 2 % window) / window + a.longer - half + 2
  if i >= 1 and i <= 3 then
    local sums, own = light, a.claim
    if a.heavy > 0 then
      sums, own = heavy, a.weight
    end
    sums[i], tally.changed = max(sums[i] + sign * own, 0), true -- less where the clock was set back
  end
end
-- Has an account that was refused count half a window longer.
local function stay(a)
  if a.longer == 0 then
    add(a, -1)
    a.longer, a.changed = 1, true
    add(a, 1)
  end
end
-- The permits a window that an account is entitled to; 0: nobody has to be held back.
local function part(a)
  local low, among = light[1] + light[2] + light[3], heavy[1] + heavy[2] + heavy[3]
  local spare = share * @MILLI - low
  if tally.count < 2 or (among == 0 and spare >= 0) or (a.heavy > 0 and low == 0 and among <= a.weight) then
    return 0
  end
  if among == 0 or spare <= 0 then
    spare, among = share * @MILLI, tally.count * @MILLI
  end
  return min(a.weight * spare / among / @MILLI, share)
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
  if tally.changed then
    words[3] = '@LEDGER'
    words[4] = format('@ledger.form@sum.form@sum.form@sum.form', tally.count, half, tally.searched, light[1], heavy[1],
      light[2], heavy[2], light[3], heavy[3])
  end
  for id, a in pairs(accounts) do
    if a.changed then
      words[#words + 1] = id
      words[#words + 1] = format('@account.form', a.weight, a.stated, a.unmet, a.waited, a.claim, a.heavy, a.longer,
        a.used, a.seen, a.credit)
    end
  end
  if words[3] then
    redis.pcall(unpack(words))
  end
  if tally.begins then
    redis.pcall('PEXPIRE', KEYS[#KEYS], format('%d', sub(ARGV[2], @terms.life) + 0))
  end
end
