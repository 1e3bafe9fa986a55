--@needs account_of contended everybody fill floor goal max min now refunded roll save sub window
--@gives header share
-- Fairness after a refund: while participants contend, what came back is not used any more, and its
-- participant has the credit again, less the price of what it held up: what was held for half a
-- window costs as much as what was used.
--
-- ARGV  3 id  4 slot or -1: of whom it was granted to; none where it was anonymous
--       5 us for which it was held; earlier versions do not say: 0
-- Reads refunded. The ledger is never a reason for a refund to fail.
if refunded > 0 and ARGV[4] and contended > 0 and contended + 2 * window > now then
  pcall(function()
    local header = redis.call('GETRANGE', KEYS[#KEYS], '0', '@ledger.weights.end')
    if sub(header, @ledger.kind..version) ~= '@ledger.kind..version.form' then
      return
    end
    --@include fair_pace
    local share = goal
    --@include fair_account
    local a = account_of(ARGV[3], ARGV[4] + 0) or everybody()
    roll(a)
    local price = floor(refunded * @MICRO * min(((ARGV[5] or '0') + 0) * @HELD_TIMES, window) / window)
    local unused = refunded - floor(price / @MICRO)
    local recent = min(unused, a.used)
    a.used, a.used_before = a.used - recent, max(0, a.used_before - (unused - recent))
    local _, limit = fill(a, 0)
    a.credit = min(a.credit + (refunded * @MICRO - price), limit)
    save()
  end)
end
