-- Fairness: opens the account of a caller: what it reported, what it wants, and what credit it has.
-- The ledger is a hash of a header and of an account of each participant. internal/limittest/ledger
-- says what the numbers mean, and why; this is equal to it bit for bit. A ledger that is damaged
-- raises an error.
--
-- Most takes read and write the account alone. The header is for bookings, and for those that are
-- new, state a claim, are not held back, or are refused and count longer or are owed something.
--@layout ledger
--@layout account
local account, whose, changed, h = redis.pcall('HGET', KEYS[#KEYS], id), id, unmet > 0, nil
local new = type(account) ~= 'string'
if new then -- it is served from the account of all new names
  whose, account = '@SHARED', redis.pcall('HGET', KEYS[#KEYS], '@SHARED')
  account = type(account) == 'string' and account or pack('@account.form', @MILLI, 0, 0, 0, 0, 0, 0, 0, 0, now)
end
-- One that is damaged states its claim, so that it is seen first whose ledger it is.
local known, stated, claim, waited, rate, heavy, longer, denied, used, empty =
  numbers('@account.form', #account == @account.bytes and account or '@account.weight..empty.zero', 1)
local states = now < stated or (now - stated) * @STATEMENTS >= window or known ~= weight
if new or states or rate == 0 then
  h = header(id, now, window)
  if new and h.accounts < @MAX_ACCOUNTS then
    h.accounts, h.moved = h.accounts + 1, true
    local turn = h.accounts * batch > goal and now - h.opened < window
      and h.accounts * batch * window / max(goal, 1) or 0
    redis.pcall('HSET', KEYS[#KEYS], id, pack('@account.form', weight, 0, 0, 0, 0, 0, 0, 0, 0,
      max(now - floor(turn), 0)))
  end
end
assert(#account == @account.bytes and used <= @MOST and waited <= @MILLI)
heavy, longer, denied = heavy == 1, longer == 1, min(denied + 2 * unmet, @MOST)
local part, was = rate / @MILLI, rate
local depth = max(@DEPTH_LEAST, @DEPTH_PART * part, @DEPTH_ROOT * sqrt(part))
local credit = min((now - empty) * part / window, depth)
if h then
  local sums = h.sums
  -- At which rate it is paced.
  local function paced()
    local light, among, all = sums[1] + sums[3] + sums[5], sums[2] + sums[4] + sums[6], goal * @MILLI
    local spare = all - light
    if h.accounts < 2 or among == 0 and spare >= 0 or light == 0 and heavy and among <= weight then
      return 0
    elseif among == 0 or spare <= 0 then
      spare, among = all, h.accounts * @MILLI
    end
    return max(1, floor(min(weight * spare / among, all)))
  end
  if states then -- it says what it wants
    local fades = window / (window + 2 * max(now - stated, 0))
    used, denied, waited = floor(used * fades), floor(denied * fades), floor(waited * fades)
    if waiting > 0 then
      waited = waited + floor(@MILLI * (1 - fades))
    end
    local wants = min(max(used + denied + waiting * @MILLI, floor(used * @MILLI / (@MILLI + 1 - waited))),
      used * @BACKED_TIMES + @BACKED_MORE)
    local i = 2 * ((stated * 2 - stated * 2 % window) / window + (longer and 1 or 0) - h.half) + (heavy and 4 or 3)
    local had = sums[4]
    h.moved = h.moved or i ~= 4
    if i >= 1 and i <= 6 then
      sums[i] = max(sums[i] - (heavy and known or claim), 0)
    end
    stated, claim, heavy, longer, sums[4] = now, wants, true, false, sums[4] + weight
    h.moved, rate = h.moved or sums[4] ~= had, paced()
    if claim < rate or rate == 0 and denied == 0 and claim <= goal * @MILLI then
      heavy, h.moved, sums[3], sums[4] = false, true, sums[3] + claim, max(sums[4] - weight, 0)
      rate = paced()
    end
    changed = true
  elseif rate == 0 then
    rate = paced()
    changed = changed or rate > 0
  end
  if rate ~= was then
    part = rate / @MILLI
    depth = max(@DEPTH_LEAST, @DEPTH_PART * part, @DEPTH_ROOT * sqrt(part))
    if was > 0 and rate > 0 then -- it keeps its credit
      empty = max(now - max(floor(credit * @MILLI * window / rate + 0.5), -@MOST), 0)
    end
    credit = min((now - empty) * part / window, depth)
  end
end
