-- Take, the calm case: writes a grant, at once if what stands between its two places is at hand.
if n > 0 then
  local entry = ''
  if count > 0 and newest ~= begins and count < @MOST_ENTRIES
    and (count < exact or newest < now - now % cell) then
    count, entry = count + 1, single and pack('@entry.form', newest, total) or sub(state, @log.newest..total[behind])
    if not rest and (anew or #state == @READ) then
      call('SETRANGE', key, format('%d', from + length), entry)
      entry = ''
    end
  elseif count < 2 then
    count, oldest, soonest, anew = 1, begins, reset, true
  end
  local own = pack('@packed.touched.form@log.count..total.form', now, count, begins, (total + n) % @WRAP)
  if anew then
    own = own .. pack('@log.since..oldest.form', since, before, dead, oldest) .. (rest or '') .. entry
  elseif entry ~= '' then
    own = own .. sub(state, @log.since.from[behind], from + length) .. entry
  end
  if single or rest and length > @entry.bytes[8] then -- it is of another kind, or becomes shorter
    front = single and begin .. '@packed.start..returned.zero' or sub(state, 1, behind - 1 + @packed.touched.at)
    call('SET', key, front .. own, 'PX', life)
  else
    call('SETRANGE', key, place, own)
    if touched < now - now % (window / 16) then -- not before: a server that is full refuses the first write only
      redis.pcall('PEXPIRE', key, life)
    end
  end
end
