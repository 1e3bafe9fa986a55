--@needs contended format granted now refunded sub window
-- Fairness, settle: while participants contend, what came back was not used, and its participant
-- has the credit again; what was charged was, and its credit pays.
--
-- ARGV  9 id: of whom it was granted to; none where it was anonymous
-- The ledger is never a reason for it to fail.
local unused = refunded - granted
if unused ~= 0 and #(ARGV[9] or '') == 16 and contended > 0 and contended + 2 * window > now then
  pcall(function()
    local stored = redis.call('HMGET', KEYS[#KEYS], '@LEDGER', ARGV[9], '@SHARED')
    local text, max, min = stored[2] or stored[3], math.max, math.min
    local used = max(min(sub(text, @account.used) - 2 * unused * @MILLI, @MOST), 0)
    local credit = max(min(sub(text, @account.credit) + unused * @MICRO, @DEEPEST), -@DEEPEST)
    assert(#text == @account.bytes and sub(stored[1], @ledger.kind) == '@ledger.kind.form' and used + credit < 2 ^ 62)
    redis.call('HSET', KEYS[#KEYS], stored[2] and ARGV[9] or '@SHARED', sub(text, @account.weight..longer)
      .. format('@account.used.form', used) .. sub(text, @account.seen) .. format('@account.credit.form', credit))
  end)
end
