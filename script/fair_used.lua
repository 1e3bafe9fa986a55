-- Fairness, settle: while participants contend, what came back was not used, and its participant
-- has the credit again; what was charged was, and its credit pays.
--
-- ARGV  9 id: of whom it was granted to; none where it was anonymous
-- The ledger is never a reason for it to fail.
local unused = refunded - granted
if unused ~= 0 and #(ARGV[9] or '') == 16 and contended > 0 and contended + 2 * window > now then
  pcall(function()
    local whose, text = ARGV[9], redis.call('HGET', KEYS[#KEYS], ARGV[9])
    if not text then
      whose, text = '@SHARED', redis.call('HGET', KEYS[#KEYS], '@SHARED')
    end
    local rate = numbers('@account.rate.form', text, @account.rate.from)
    local used, empty = numbers('@account.used..empty.form', text, @account.used.from)
    local part, head = rate / @MILLI, redis.call('HGET', KEYS[#KEYS], '@LEDGER')
    assert(#text == @account.bytes and sub(head, 1, #'@LEDGER_KIND') == '@LEDGER_KIND')
    used = max(0, min(used - 2 * unused * @MILLI, @MOST))
    if part > 0 then
      local depth = max(@DEPTH_LEAST, @DEPTH_PART * part, @DEPTH_ROOT * math.sqrt(part))
      local credit = min((now - empty) * part / window, depth) + unused
      empty = max(now - max(floor(credit * @MILLI * window / rate + 0.5), -@MOST), 0)
    elseif unused > 0 then
      empty = min(empty, now)
    end
    redis.call('HSET', KEYS[#KEYS], whose, sub(text, @account.weight..unmet)
      .. pack('@account.used..empty.form', used, empty))
  end)
end
