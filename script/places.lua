-- The pointer of a node: a short text, and in which run of the server it was written. Read it, or
-- write it by compare-and-set. While it is there in the run that it was written in, the server has
-- forgotten nothing since: so a place of a register that holds no value has accepted none.
--
-- KEYS  1 the pointer: a string, "<run> <text>"
-- ARGV  1 text ('': only read)  2 the text that must be there now ('': nothing there)
--       3 time to live ms (0: none)
-- Reply status (1; -1 with the number of the foreign key; -2 with the server's refusal), whether
-- the pointer is of this run (0, 1), uptime s, now us, text, run
local state = redis.pcall('GET', KEYS[1])
if type(state) == 'table' then
  return {-1, 1, state.err}
end
local wrote, text = '', ''
if state then
  wrote, text = string.match(state, '^(%S+) (.+)$')
  if not wrote then
    return {-1, 1}
  end
end
local done = {}
if ARGV[1] ~= '' and text == ARGV[2] then
  wrote, text = run, ARGV[1]
  state = run .. ' ' .. text
  done = ARGV[3] == '0' and redis.pcall('SET', KEYS[1], state) or redis.pcall('SET', KEYS[1], state, 'PX', ARGV[3])
elseif state and ARGV[3] ~= '0' then
  done = redis.pcall('PEXPIRE', KEYS[1], ARGV[3])
end
if type(done) == 'table' and done.err then
  return {-2, done.err}
end
-- One that does not tell was never seen to start.
local uptime = type(info) == 'string' and string.match(info, 'uptime_in_seconds:(%d+)') or '86400'
return {1, wrote == run and 1 or 0, uptime + 0, now, text, run}
