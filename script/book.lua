--@needs contended head now share sub window
-- Book: who contends for the shard. Writes nothing, creates nothing.
--
-- KEYS   1 head, last book: of any algorithm
-- Reply status, contended (0, 1), now, window us, share, book as it is stored
local contends = contended > 0 and contended + 2 * window > now
local ledger = contends and redis.pcall('GET', KEYS[#KEYS]) -- else it may be where it cannot be read: see fewer.lua
if ledger and type(ledger) ~= 'string' or ledger and sub(ledger, @book.kind) ~= '@book.kind.form' then
  return {-1, #KEYS, ledger.err}
end
return {head and 1 or 0, contends and 1 or 0, now, window, share, contends and ledger or ''}
