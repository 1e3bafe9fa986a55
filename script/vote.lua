-- One place of a register that a majority of places keeps: read it, or have it promise, accept or
-- take a restore. What the messages mean, and why this is safe, says internal/majority; its tests
-- have this in Go, Place.Hear, and say how a place is stored.
--
-- A place that holds a value of the record '@SUCCESSOR' has moved: it takes nothing else any more.
-- So what it holds of other records is final.
--
-- KEYS  1 the place: a string
--       2 participants: ZSET name, last seen (us)
--       3 list of the records whose values are here: ZSET name, end of life (us)
--       4 pointer of the node: see places.lua; absent if the register has this one place alone
-- ARGV  1 kind: 1 read, 2 prepare, 3 accept, 4 restore, 5 list  2 ballot: round and proposer, 16
--       digits each  3 mark of the place, of accept and restore  4 value, likewise  5 for how long
--       the register has had a value, us, likewise  6 time to live ms (0: none)  7 alone (0, 1)
--       8 participant, of a read ('': none)  9 participant's time to live us, of a read
--       10 name of the record  11 of a list: how many come before those that are told
-- Reply status (1; -1 with the number of the foreign key; -2 with the server's refusal), done (0,
-- 1), votes (0, 1), age of the value us, now us, for how long the register has had a value us,
-- participants of a read, moved (0, 1), promised, accepted, mark, value; of a list of a place that
-- has moved, in its place "<length>:<name><ms left, 0: no end> " of up to 128 records. Ballots are
-- compared as text, which their leading zeros allow.
local HEAD, NONE = 105, '00000000000000000000000000000000'
local MOST = 10000 -- participants
local PAGE = 128 -- records told in one call
local LISTED, NEVER = '7776000000', 9000000000000000 -- a list lives so long, ms; the score of what has no end
local sub, format = string.sub, string.format
local kind, keep = ARGV[1], ARGV[6]
local reads = kind == '1' or kind == '5'
local done = reads and 1 or 0
local state = redis.pcall('GET', KEYS[1])
if type(state) == 'table' then
  return {-1, 1, state.err}
end
local promised, accepted, at, born, mark, value, was, votes, participants = NONE, NONE, 0, 0, '', '', '', '0', 0
if state then
  local _, digits = string.find(state, '^M2[01]%d+')
  local runs, marks = tonumber(sub(state, 100, 102)), tonumber(sub(state, 103, 105))
  if not digits or digits < HEAD or #state < HEAD + runs + marks then
    return {-1, 1}
  end
  votes, promised, accepted = sub(state, 3, 3), sub(state, 4, 35), sub(state, 36, 67)
  at, born = tonumber(sub(state, 68, 83)), tonumber(sub(state, 84, 99))
  was, mark = sub(state, HEAD + 1, HEAD + runs), sub(state, HEAD + runs + 1, HEAD + runs + marks)
  value = sub(state, HEAD + runs + marks + 1)
  if was ~= run then -- what it promised or accepted since then is unknown
    votes, mark = '0', ''
  end
end
-- With no value it has accepted none, if the server forgot nothing.
if accepted == NONE and ARGV[7] == '1' then
  votes = '1'
elseif accepted == NONE and votes == '0' then
  local pointer = redis.pcall('GET', KEYS[4])
  if type(pointer) == 'table' then
    return {-1, 4, pointer.err}
  end
  local wrote = pointer and string.match(pointer, '^(%S+) .')
  if pointer and not wrote then
    return {-1, 4}
  end
  votes = wrote == run and '1' or '0'
end
local moved = redis.pcall('ZSCORE', KEYS[3], '@SUCCESSOR')
if type(moved) == 'table' then
  return {-1, 3, moved.err}
end
local final = moved -- what is in the list, too: it may be read just now
moved = moved and ARGV[10] ~= '@SUCCESSOR'
-- list has the record in the list of those that are here, and forgets those whose time is over.
local function list()
  if final then
    return
  end
  local added = redis.pcall('ZADD', KEYS[3], format('%d', keep == '0' and NEVER or now + keep * 1000), ARGV[10])
  if type(added) == 'table' then
    return added.err
  end
  redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', format('(%d', now))
  redis.call('PEXPIRE', KEYS[3], LISTED)
end
if kind == '5' then
  local page = moved and redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', '+inf', 'LIMIT', ARGV[11], PAGE) or {}
  for i, name in ipairs(page) do
    local ends = redis.call('ZSCORE', KEYS[3], name) + 0
    local left = ends < NEVER and math.max(math.ceil((ends - now) / 1000), 1) or 0
    page[i] = #name .. ':' .. name .. format('%d ', left)
  end
  value = table.concat(page)
elseif kind == '1' and not moved then
  local set = redis.call('TYPE', KEYS[2]).ok
  if set ~= 'none' and set ~= 'zset' then
    return {-1, 2}
  end
  local name, ttl = ARGV[8], ARGV[9] + 0
  if name ~= '' then
    -- A name seen in the far future was seen before the clock went back: it is forgotten, too.
    local gone = redis.pcall('ZREMRANGEBYSCORE', KEYS[2], '-inf', format('%d', now - ttl))
    local added = type(gone) == 'table' and gone
    if not added then
      redis.call('ZREMRANGEBYSCORE', KEYS[2], format('(%d', now + ttl), '+inf')
      if redis.call('ZCARD', KEYS[2]) < MOST or redis.call('ZSCORE', KEYS[2], name) then
        added = redis.pcall('ZADD', KEYS[2], format('%d', now), name)
      end
    end
    if type(added) == 'table' then
      return {-2, added.err}
    end
    redis.call('PEXPIRE', KEYS[2], format('%d', math.ceil(ttl / 1000)))
    if state and keep ~= '0' then
      redis.call('PEXPIRE', KEYS[1], keep)
      local refused = accepted ~= NONE and list()
      if refused then
        return {-2, refused}
      end
    end
  end
  participants = redis.call('ZCOUNT', KEYS[2], format('(%d', now - ttl), '+inf')
elseif kind == '2' and promised < ARGV[2] and not moved then
  done, promised = 1, ARGV[2]
  if mark == '' then
    was, mark = run, run .. '/' .. format('%.0f', now) .. '/' .. ARGV[2]
  end
elseif (kind == '3' and votes == '1' or kind == '4') and mark ~= '' and mark == ARGV[3] and promised == ARGV[2]
  and not moved then
  local refused = list()
  if refused then
    return {-2, refused}
  end
  if votes == '0' or accepted == NONE or value ~= ARGV[4] then
    at = now
  end
  born = math.max(math.min(born > 0 and born or now, now - ARGV[5]), 1)
  done, votes, accepted, value = 1, '1', ARGV[2], ARGV[4]
end
if done == 1 and not reads then
  local head = 'M2' .. votes .. promised .. accepted .. format('%016.0f%016.0f%03d%03d', at, born, #was, #mark)
  local text = head .. was .. mark .. value
  local stored = keep == '0' and redis.pcall('SET', KEYS[1], text) or redis.pcall('SET', KEYS[1], text, 'PX', keep)
  if stored.err then
    return {-2, stored.err}
  end
end
local age = at > 0 and now > at and now - at or 0
local known = born > 0 and now > born and now - born or 0
return {1, done, votes + 0, age, now, known, participants, moved and 1 or 0, promised, accepted, mark, value}
