--@needs account_of b closed contended everybody fill floor format fresh goal header max min
--@needs note_claim now roll save window
--@gives charge pay permits appointed share
-- Fairness, before a booking: while participants contend, what is booked is paid from credit like
-- what is taken, or it would be a way around one's part.
--
-- ARGV  3 permits; 7.. unless the caller is anonymous: id, slot or -1, weight in thousandths,
--       permits that blocked callers wait for
-- Gives `pay`, the us until the participant's credit can pay for the `permits`, and, if there is
-- something to write, charge(granted, delay), to be called at the end.
local permits, pay, charge = ARGV[3] + 0, 0, nil
if contended > 0 and contended + 2 * window > now and closed == 0 and ARGV[10] then
  --@include fair_header
  local sound, us, finish = pcall(function()
    --@include fair_pace
    local share = goal
    --@include fair_account
    local id, weight, own, newcomer = ARGV[7], ARGV[9] + 0
    own = account_of(id, ARGV[8] + 0)
    local a = own or everybody()
    if not own and b.count <= @MAX_ACCOUNTS then
      newcomer = fresh(id, weight)
      b.accounts[b.count], b.count = newcomer, b.count + 1
    end
    a.weight = weight
    roll(a)
    note_claim(a, ARGV[10] + 0, own and now - own.filled or window, permits)
    a.seen = now
    local e, limit, capacity = fill(a, permits)
    local want, pay_in = min(permits * @MICRO, limit), 0
    if e > 0 and a.credit < want then
      pay_in = max(0, math.ceil(min((want - a.credit) * window / (e * @MICRO), @FARTHEST)) - (now - a.filled))
    end
    return pay_in, function(granted, delay)
      a.used = max(a.used, min(a.used + granted, @BUSIEST))
      if newcomer then
        newcomer.used = granted
      end
      if delay > 0 then
        a.seen, a.denied = max(a.seen, now + delay), max(a.denied, now + delay)
        if newcomer then
          newcomer.seen, newcomer.denied = now + delay, now + delay
        end
      end
      if e > 0 and granted > 0 then
        local paid_to = max(a.filled, now + min(delay, @FAR_AHEAD * window))
        local gain = floor(e * @MICRO * (paid_to - a.filled) / window)
        a.credit, a.filled = max(min(a.credit + gain, capacity) - granted * @MICRO, -@DEEPEST), paid_to
      end
      if header == '' then
        local appointed = b.appointed
        --@include fair_begin
      end
      save()
      if b.count ~= b.stored then
        redis.call('SETRANGE', KEYS[#KEYS], '@ledger.accounts.at', format('@ledger.accounts.form', b.count))
      end
    end
  end)
  if sound then
    pay, charge = us, finish
  else
    redis.pcall('DEL', KEYS[#KEYS])
  end
end
