--@needs accounts contended floor goal granted max min now part read refunded save sqrt stored
--@needs window
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
    local id = stored[2] and ids[1] or ids[2]
    local a = read(stored[2] or stored[3])
    local rate = part(a)
    rate = rate == 0 and share or rate
    local most = floor(max(@DEPTH_LEAST, @DEPTH_PART * rate, @DEPTH_ROOT * sqrt(rate)) * @MICRO)
    a.used = max(min(a.used - 2 * unused * @MILLI, @MOST), 0)
    a.credit = max(min(a.credit + unused * @MICRO, most), -@DEEPEST)
    accounts[id], a.changed = a, true
    save()
  end)
end
