--@needs allow asking begun contending format grants groups headroom left next_us paced remark
--@needs reply save sub window
-- Fairness, part 2, after the grants are written: when each participant should come back, what it
-- wants, and the water level.
--
-- `next_us` is when permits come back, 0 if none are out. Appends to `reply` the grants of each
-- group, and the retry us of each caller. The ledger lives as long as the head. A server that
-- refuses to write it harms fairness only.
if begun then
  redis.pcall('DEL', KEYS[#KEYS])
end
if contending then
  local max, min = math.max, math.min
  for nth = 1, groups do
    reply[#reply + 1] = grants[nth]
  end
  for nth = 1, #asking do
    local a = asking[nth]
    local denied, unserved, comeback = a.refused, a.unserved, 0
    if a.e > 0 then
      if unserved == 0 and a.heavy > 0 and allow(a, 1, 1, left) == 0 then
        denied, unserved = 1, 1 -- it would be refused now: it need not come to hear it
      end
      local credit, want = a.now / @MICRO, 1
      if unserved > 0 then
        want = max(1, min(denied, a.depth), min(unserved, math.floor(a.depth / 2)))
      end
      if unserved > 0 or a.heavy == 0 then
        comeback = max((want - credit) * window / a.e, 0)
        if a.heavy > 0 and denied > left then
          comeback = max(comeback, min(a.depth - credit, max(1, max(paced, 1) / @WANT_PART)) * window / a.e)
        end
      end
      if unserved > 0 then
        local short = denied - left
        if credit >= want then
          short = short + math.ceil(headroom * (1 - credit / a.depth))
        end
        if short > 0 then
          comeback = max(comeback, next_us + (short - 1) * window / max(paced, 1))
        end
        comeback = max(comeback, window / @LEAST_PART)
      end
      comeback = math.ceil(min(comeback, window))
    end
    reply[#reply + 1] = comeback
  end
  if save() or remark then
    redis.pcall('PEXPIRE', KEYS[#KEYS], format('%d', sub(ARGV[2], @terms.life) + 0))
  end
end
