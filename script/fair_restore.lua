-- Fairness after a refund: while participants contend, what came back is not used any more, and its participant has the credit again.
--
-- ARGV  3 id  4 slot or -1: of whom it was granted to; none where it was anonymous
-- Reads refunded. The book is never a reason for a refund to fail.
if refunded > 0 and ARGV[4] and contended > 0 and contended + 2 * window > now then
  pcall(function()
    local header = redis.call('GETRANGE', KEYS[#KEYS], '0', '150')
    if sub(header, 1, 4) ~= 'SLB5' then
      return
    end
    local booked_ahead = false -- what comes back is no credit that came while it was shut out
    -- include account
    local a = find(ARGV[3], ARGV[4] + 0) or everybody()
    roll(a)
    local recent = min(refunded, a.used)
    a.used, a.used_before = a.used - recent, max(0, a.used_before - (refunded - recent))
    local _, full = fill(a, 0)
    a.credit = min(a.credit + refunded * 1000000, full)
    save()
  end)
end
