-- One-string algorithms, part 2 of every operation but drop: read what all have in common.
local calm = as_proposed and sign ~= ':' -- closed_until, offset and contended are 0
if head then
  if sign == ':' then
    closed_until, offset, contended, base = match(head, '^(%d+) (%d+) (%d+);()', base)
    if not base then
      return {-1, 1}
    end
  end
  own, base = sub(head, base), base - 1
  if #own < (sign == ',' and @once.bytes or @packed.bytes) then
    return {-1, 1}
  elseif sign == ',' then
    touched = numbers('@once.touched.form', own, 1)
  else
    start, returned, touched = numbers('@packed.start..touched.form', own, 1)
  end
  epoch, revision, target, window, burst, share, closed_until, offset, contended = epoch + 0, revision + 0, target + 0,
    window + 0, burst + 0, share + 0, closed_until + 0, offset + 0, contended + 0
  -- Also false for NaN and infinity, which strtod accepts.
  if not (epoch >= 1 and window >= 1000 and target < 1e13 and share < 1e13 and closed_until < 1e16 and offset < 1e16
    and touched < 1e16 and burst < 1e13 and contended < 1e16) then
    return {-1, 1}
  end
  -- After a quarantine its share has to be confirmed anew: as if there were no state.
  if closed_until > 0 and closed_until <= now + offset then
    head, as_proposed, share, offset, touched, contended, returned = nil, false, 0, 0, 0, 0, 0
  end
  now = now + offset
  if now < touched then
    offset = offset + touched - now
    now = touched
    stepped = true
  end
end
