--@needs account_of contended everybody fill goal granted max min now refunded roll save sub window
--@gives header share
-- Fairness, settle: while participants contend, what came back was not used, and its participant
-- has the credit again; what was charged was, and its credit pays.
--
-- ARGV  9 id  10 slot or -1: of whom it was granted to; none where it was anonymous
-- The ledger is never a reason for it to fail.
local unused = refunded - granted
if unused ~= 0 and ARGV[10] and contended > 0 and contended + 2 * window > now then
  pcall(function()
    local header = redis.call('GETRANGE', KEYS[#KEYS], '0', '@ledger.weights.end')
    if sub(header, @ledger.kind..version) ~= '@ledger.kind..version.form' then
      return
    end
    --@include fair_pace
    local share = goal
    --@include fair_account
    local a = account_of(ARGV[9], ARGV[10] + 0) or everybody()
    roll(a)
    local recent = min(unused, a.used)
    a.used, a.used_before = min(a.used - recent, @BUSIEST), max(0, a.used_before - (unused - recent))
    local _, limit = fill(a, 0)
    a.credit = max(min(a.credit + unused * @MICRO, limit), -@DEEPEST)
    save()
  end)
end
