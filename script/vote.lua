-- One place of a register that a majority of places keeps: read it, or have it promise, accept or
-- take a restore. What the messages mean, and why this is safe, says internal/majority, whose
-- Place.Hear this is.
--
-- KEYS  1 the place: a string, as internal/majority/codec.go says
-- ARGV  1 kind: 1 read, 2 prepare, 3 accept, 4 restore  2 ballot: round and proposer, 16 digits
--       each  3 mark of the place, of accept and restore  4 value, likewise
-- Reply status (1; -1 with the number of the foreign key; -2 with the server's refusal), done (0,
-- 1), votes (0, 1), age of the value us, now us, promised, accepted, mark, value
--
-- Ballots are compared as text, which their leading zeros allow.
local HEAD, NONE = 89, '00000000000000000000000000000000'
local sub, format = string.sub, string.format
local time, info = redis.call('TIME'), redis.pcall('INFO', 'server')
local now = time[1] * 1000000 + time[2]
local state = redis.pcall('GET', KEYS[1])
if type(state) == 'table' then
  return {-1, 1, state.err}
end
-- A server that was started again may have forgotten what it promised. One that keeps nothing
-- longer than it runs has no name for its run.
local run = type(info) == 'string' and string.match(info, 'run_id:(%w+)')
if not run then
  if type(info) == 'string' or not string.find(info.err, 'not supported', 1, true) then
    return {-2, type(info) == 'table' and info.err or 'ERR INFO server tells no run_id'}
  end
  run = 'none'
end
-- One that was a replica meanwhile has what its master had, and another name for its data since.
local copies = redis.pcall('INFO', 'replication')
local data = type(copies) == 'string' and string.match(copies, 'master_replid:(%w+)')
if data then
  run = run .. '/' .. data
end
local votes, promised, accepted, at, mark, value, was = '0', NONE, NONE, 0, '', '', ''
if state then
  local runs, marks = tonumber(sub(state, 84, 86)), tonumber(sub(state, 87, 89))
  at = tonumber(sub(state, 68, 83))
  if not string.find(state, '^M1[01]%d+') or not (runs and marks and at) or #state < HEAD + runs + marks then
    return {-1, 1}
  end
  votes, promised, accepted = sub(state, 3, 3), sub(state, 4, 35), sub(state, 36, 67)
  was, mark = sub(state, HEAD + 1, HEAD + runs), sub(state, HEAD + runs + 1, HEAD + runs + marks)
  value = sub(state, HEAD + runs + marks + 1)
end
if was ~= run then -- what it promised or accepted since then is unknown
  votes, mark = '0', ''
end
local kind, done = ARGV[1], 0
if kind == '1' then
  done = 1
elseif kind == '2' and promised < ARGV[2] then
  done, promised = 1, ARGV[2]
  if mark == '' then
    was, mark = run, run .. '/' .. format('%.0f', now) .. '/' .. ARGV[2]
  end
elseif (kind == '3' and votes == '1' or kind == '4') and mark ~= '' and mark == ARGV[3] and promised == ARGV[2] then
  if votes == '0' or value ~= ARGV[4] then
    at = now
  end
  done, votes, accepted, value = 1, '1', ARGV[2], ARGV[4]
end
if done == 1 and kind ~= '1' then
  local head = 'M1' .. votes .. promised .. accepted .. format('%016.0f%03d%03d', at, #was, #mark)
  local stored = redis.pcall('SET', KEYS[1], head .. was .. mark .. value)
  if stored.err then
    return {-2, stored.err}
  end
end
return {1, done, votes + 0, now > at and now - at or 0, now, promised, accepted, mark, value}
