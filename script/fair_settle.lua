--@needs MARK begun contended contending format grants groups ledger left next_us paced remark reply
--@needs window written
-- Fairness, part 2, after the grants are written: when each participant should come back, what it
-- wants, and the water level.
--
-- `written` tells whether the whole head has been written, and with it `contended`; `next_us` is
-- when permits come back, 0 if none are out. Appends to `reply` the grants of each group, and the
-- retry us of each caller. The ledger lives as long as the head. A server that refuses to write
-- harms fairness only.
if remark and not written then
  redis.pcall('SETRANGE', KEYS[1], MARK, format('@head.contended.form', contended))
end
if begun then
  redis.pcall('DEL', KEYS[#KEYS])
end
if contending then
  for i = 1, groups do
    reply[#reply + 1] = grants[i]
  end
  pcall(function()
    local share = paced
    local floor, ceil, max, min = math.floor, math.ceil, math.max, math.min
    local b = ledger
    for _, entry in ipairs(b.entries) do
      local a, e, refused, unserved, retry = entry.a, entry.e, entry.refused, entry.unserved, 0
      b.note(a, unserved > 0)
      local in_vain = e > 0 and unserved == 0 and a.heavy > 0 and b.allow(entry, 1, 1, left) == 0
      if in_vain then -- it wants more than its part: if it would be refused now, it need not come to hear it
        refused, unserved = 1, 1
      end
      if e > 0 and (unserved > 0 or a.heavy == 0) then
        local credit, want = a.credit / @MICRO, 1
        if unserved > 0 then
          local few = floor(min(entry.depth / 2, max(share, 1) / @WANT_PART))
          want = max(1, min(refused, entry.depth), min(unserved, few))
        end
        retry = max((want - credit) * window / e, 0)
        if unserved > 0 then
          local need = refused - left
          if credit >= want then
            need = need + ceil(b.headroom * (1 - credit / entry.depth))
          end
          if need > 0 then
            retry = max(retry, next_us + (need - 1) * window / max(share, 1))
          end
          retry = max(retry, window / @LEAST_PART)
        end
        retry = ceil(min(retry, window))
      end
      reply[#reply + 1] = retry
    end
    b.begins = b.begins or remark
    b.save()
  end)
end
