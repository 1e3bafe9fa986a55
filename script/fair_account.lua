-- Fairness: the ledger of who contends for a shard. It is a hash of a header and of an account of
-- each participant. What the numbers mean and why says internal/limittest/ledger, to which this is
-- equal bit for bit. An error is raised where the ledger is damaged, and where it is not ours; that
-- is the reply then.
--
-- Most takes read and write the account alone. The header is for bookings, and for those that are
-- new, state a claim, are not held back, or are refused and count longer or are owed something.
--@layout ledger
--@layout account

-- The header: what the light want and the weight of the heavy, in three half windows.
local function header(id, now, window)
  local text, half = redis.pcall('HGET', KEYS[#KEYS], '@LEDGER'), (now * 2 - now * 2 % window) / window
  if type(text) == 'table' or text and sub(text, 1, #'@LEDGER_KIND') ~= '@LEDGER_KIND'
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

-- At which rate one is paced, 0: at none.
local function paced(h, weight, heavy, goal)
  local s, all = h.sums, goal * @MILLI
  local light, among = s[1] + s[3] + s[5], s[2] + s[4] + s[6]
  local spare = all - light
  if h.accounts < 2 or among == 0 and spare >= 0 or light == 0 and heavy and among <= weight then
    return 0
  elseif among == 0 or spare <= 0 then
    spare, among = all, h.accounts * @MILLI
  end
  return max(1, floor(min(weight * spare / among, all)))
end

-- When the credit was 0, or will be.
local function emptied(credit, rate, now, window)
  return max(now - max(floor(credit * @MILLI * window / rate + 0.5), -@MOST), 0)
end

-- What a rate gives in a window, how much credit there is at most, and how much there is.
local function credited(rate, empty, now, window)
  local part = rate / @MILLI
  local depth = max(@DEPTH_LEAST, @DEPTH_PART * part, @DEPTH_ROOT * sqrt(part))
  return part, depth, min((now - empty) * part / window, depth)
end

-- Which of the sums a claim is in, if any.
local function place(a, window)
  return 2 * ((a.stated * 2 - a.stated * 2 % window) / window + (a.longer and 1 or 0) - a.header.half)
    + (a.heavy and 4 or 3)
end

-- Opens the account of a caller: what it wants, and its credit. whole: the header is needed anyway.
local function open(id, weight, unmet, waiting, now, window, goal, batch, whole)
  local text, whose, h = redis.pcall('HGET', KEYS[#KEYS], id), id, nil
  local new = type(text) ~= 'string'
  if new then -- it is served from the account of all new names
    whose, text = '@SHARED', redis.pcall('HGET', KEYS[#KEYS], '@SHARED')
    text = type(text) == 'string' and text or pack('@account.form', @MILLI, 0, 0, 0, 0, 0, 0, 0, 0, now)
  end
  -- One that is damaged states its claim, so that it is seen first whose ledger it is.
  local known, stated, claim, waited, rate, heavy, longer, denied, used, empty =
    numbers('@account.form', #text == @account.bytes and text or '@account.weight..empty.zero', 1)
  local states = now < stated or (now - stated) * @STATEMENTS >= window or known ~= weight
  if new or states or rate == 0 or whole then
    h = header(id, now, window)
    if new and h.accounts < @MAX_ACCOUNTS then
      h.accounts, h.moved = h.accounts + 1, true
      local turn = h.accounts * batch > goal and now - h.opened < window
        and h.accounts * batch * window / max(goal, 1) or 0
      redis.pcall('HSET', KEYS[#KEYS], id, pack('@account.form', weight, 0, 0, 0, 0, 0, 0, 0, 0,
        max(now - floor(turn), 0)))
    end
  end
  assert(#text == @account.bytes and used <= @MOST and waited <= @MILLI)
  local a = {id = id, whose = whose, header = h, weight = weight, stated = stated, claim = claim, waited = waited,
    rate = rate, heavy = heavy == 1, longer = longer == 1, denied = min(denied + 2 * unmet, @MOST), used = used,
    empty = empty, changed = unmet > 0}
  a.part, a.depth, a.credit = credited(rate, empty, now, window)
  if not h then
    return a
  elseif states then -- it says what it wants
    local fades, sums = window / (window + 2 * max(now - stated, 0)), h.sums
    a.used, a.denied, a.waited = floor(used * fades), floor(a.denied * fades), floor(waited * fades)
    if waiting > 0 then
      a.waited = a.waited + floor(@MILLI * (1 - fades))
    end
    local wants = min(max(a.used + a.denied + waiting * @MILLI, floor(a.used * @MILLI / (@MILLI + 1 - a.waited))),
      a.used * @BACKED_TIMES + @BACKED_MORE)
    local i, had = place(a, window), sums[4]
    h.moved = h.moved or i ~= 4
    if i >= 1 and i <= 6 then
      sums[i] = max(sums[i] - (a.heavy and known or claim), 0)
    end
    a.stated, a.claim, a.heavy, a.longer, sums[4] = now, wants, true, false, sums[4] + weight
    rate, h.moved = paced(h, weight, true, goal), h.moved or sums[4] ~= had
    if wants < rate or rate == 0 and a.denied == 0 and wants <= goal * @MILLI then
      a.heavy, h.moved, sums[3], sums[4] = false, true, sums[3] + wants, max(sums[4] - weight, 0)
      rate = paced(h, weight, false, goal)
    end
    a.changed = true
  elseif rate == 0 then
    rate = paced(h, weight, a.heavy, goal)
    a.changed = a.changed or rate > 0
  end
  if rate ~= a.rate then
    if a.rate > 0 and rate > 0 then -- it keeps its credit
      a.empty = emptied(a.credit, rate, now, window)
    end
    a.rate, a.part, a.depth, a.credit = rate, credited(rate, a.empty, now, window)
  end
  return a
end

-- A participant was refused, and is told to come in `back` us, or then has what it booked. If that
-- is after its claim ends, it does what it was told, and is not silent: it counts half a window
-- longer. One whose callers waited is heavy until its next statement if it could have paid for the
-- `first`, or never could, and they are not much of the share.
local function stay(a, first, unserved, back, booked, now, window, goal)
  local lacks = not a.heavy and a.waited * 2 > @MILLI
    and (a.credit >= first or first > a.depth and first * @LARGE_PART <= goal)
  -- Callers that wait for single permits do not book. A participant that is refused one beside
  -- bookings, and could pay for it, is owed what it lacks of its part. Collections of much of the
  -- share are not owed: they are booked.
  local short = booked and first == 1 and a.credit >= 1 and unserved * @LARGE_PART <= goal and a.rate - a.used or 0
  local stays = lacks or not a.longer and (now + back) * 2 >= a.stated * 2 - a.stated * 2 % window + 2 * window
  if stays or short > 0 then
    a.header = a.header or header(a.id, now, window)
    local h = a.header
    h.moved = h.moved or stays or short > h.owed -- before `owed` changes: miniredis would compare the new one
    h.owed = max(h.owed, short)
  end
  if stays then
    local sums = a.header.sums
    for sign = -1, 1, 2 do
      local i = place(a, window)
      if i >= 1 and i <= 6 then
        sums[i] = max(sums[i] + sign * (a.heavy and a.weight or a.claim), 0)
      end
      a.longer, a.heavy = true, a.heavy or lacks
    end
    a.changed = true
  end
end

-- Writes down what changed of an account, and of the header.
local function write(a, window)
  local h = a.header
  if not (a.changed or h and h.moved) then
    return
  end
  local text = pack('@account.form', a.weight, a.stated, a.claim, a.waited, a.rate, a.heavy and 1 or 0,
    a.longer and 1 or 0, a.denied, a.used, a.empty)
  if h and h.moved then
    redis.pcall('HSET', KEYS[#KEYS], a.whose, text, '@LEDGER',
      '@LEDGER_KIND' .. pack('@ledger.form', h.accounts, h.half, h.opened, h.owed, unpack(h.sums)))
    if not h.stored then
      redis.pcall('PEXPIRE', KEYS[#KEYS], @LIFE)
    end
  else
    redis.pcall('HSET', KEYS[#KEYS], a.whose, text)
  end
end
