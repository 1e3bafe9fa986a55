-- Which run of the server this is, and what time it has, us. A server that was started again may
-- have forgotten what it had. One that keeps nothing longer than it runs has no name for its run.
local time, info = redis.call('TIME'), redis.pcall('INFO', 'server')
local now = time[1] * 1000000 + time[2]
local _, before = string.find(type(info) == 'string' and info or '', 'run_id:', 1, true)
local run = before and string.sub(info, before + 1, (string.find(info, '\r', before, true) or 0) - 1)
if not run then
  if type(info) == 'string' or not string.find(info.err, 'not supported', 1, true) then
    return {-2, type(info) == 'table' and info.err .. ' (INFO)' or 'ERR INFO server tells no run_id'}
  end
  run = 'none'
end
-- One that was a replica meanwhile has what its master had, and another name for its data since.
local copies = redis.pcall('INFO', 'replication')
_, before = string.find(type(copies) == 'string' and copies or '', 'master_replid:', 1, true)
if before then
  run = run .. '/' .. string.sub(copies, before + 1, (string.find(copies, '\r', before, true) or 0) - 1)
end
