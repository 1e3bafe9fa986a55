--@needs advance as_proposed burst closed_until contended epoch find head now offset parse share sub
--@needs target touched window
--@sets burst closed_until contended epoch now offset share start stepped target touched window
--@gives calm
-- One-string algorithms, part 3 of every operation but drop: read the state, bring it to now.
local calm = false -- all is as proposed, and closed_until, offset and contended are 0
if head then
  local sound, own
  calm = as_proposed and find(head, '               0               0', 73, true) == 73 and find(head, '               0', 134, true) == 134
  if calm then
    sound, target, share, window, touched, burst = pcall(function(head, sub)
      return sub(head, 21, 33) + 0, sub(head, 34, 46) + 0, sub(head, 60, 72) + 0, sub(head, 105, 120) + 0, sub(head, 121, 133) + 0
    end, head, sub)
  else
    sound, epoch, target, share, start, window, closed_until, offset, touched, burst, contended =
      pcall(function(head, sub)
        return sub(head, 5, 20) + 0, sub(head, 21, 33) + 0, sub(head, 34, 46) + 0, sub(head, 47, 59) + 0, sub(head, 60, 72) + 0,
          sub(head, 73, 88) + 0, sub(head, 89, 104) + 0, sub(head, 105, 120) + 0, sub(head, 121, 133) + 0, sub(head, 134, 149) + 0
      end, head, sub)
  end
  if sound then
    sound, own = pcall(parse, head)
  end
  -- Also false for NaN and infinity, which strtod accepts.
  if not (sound and own and (as_proposed or epoch >= 1) and window >= 1000 and target >= 0 and target < 1e13 and share >= 0 and share < 1e13
    and closed_until < 1e16 and offset < 1e16 and touched < 1e16 and burst >= 0 and burst < 1e13 and contended < 1e16) then
    return {-1, 1}
  end
  now = now + offset
  if now < touched then
    offset = offset + touched - now
    now = touched
    stepped = true
  end
  advance()
end
