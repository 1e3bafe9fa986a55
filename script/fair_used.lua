--@needs accounts contended full goal granted max min now part read refunded save texts window
--@gives ids share
-- Fairness, settle: while participants contend, what came back was not used, and its participant
-- has the credit again; what was charged was, and its credit pays.
--
-- ARGV  9 id: of whom it was granted to; none where it was anonymous
-- The ledger is never a reason for it to fail.
local unused = refunded - granted
if unused ~= 0 and #(ARGV[9] or '') == 16 and contended > 0 and contended + 2 * window > now then
  pcall(function()
    local ids = {ARGV[9], '@SHARED'}
    --@include fair_header
    --@include fair_pace
    local share = goal
    --@include fair_ledger
    local id = texts[ARGV[9]] and ARGV[9] or '@SHARED'
    local a = read(texts[id])
    local e = part(a)
    local _, limit = full(e == 0 and share or e)
    a.used = max(min(a.used - 2 * unused * @MILLI, @MOST), 0)
    a.credit = max(min(a.credit + unused * @MICRO, limit), -@DEEPEST)
    accounts[id] = a
    save()
  end)
end
