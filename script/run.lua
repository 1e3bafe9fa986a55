--@gives info now run
-- Which run of the server this is, and what time it has, us. A server that was started again may
-- have forgotten what it had. One that keeps nothing longer than it runs has no name for its run.
local time, info = redis.call('TIME'), redis.pcall('INFO', 'server')
local now = time[1] * 1000000 + time[2]
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
