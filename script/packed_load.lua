--@needs as_proposed burst closed_until contended epoch head now offset share sub target touched
--@needs window
--@sets burst closed_until contended epoch now offset revision share start stepped target touched window
--@gives calm
-- One-string algorithms, part 2 of every operation but drop: read what all have in common.
local calm = false -- all is as proposed, and closed_until, offset and contended are 0
if head then
  calm = as_proposed and sub(head, @packed.closed_until..contended) == '@packed.closed_until..contended.zero'
  local sound
  sound, epoch, revision, target, window, burst, share, start, closed_until, offset, touched, contended =
    pcall(function(kept, slice)
      return slice(kept, @packed.epoch) + 0, slice(kept, @packed.revision) + 0, slice(kept, @packed.target) + 0,
        slice(kept, @packed.window) + 0, slice(kept, @packed.burst) + 0, slice(kept, @packed.share) + 0,
        slice(kept, @packed.start) + 0, slice(kept, @packed.closed_until) + 0, slice(kept, @packed.offset) + 0,
        slice(kept, @packed.touched) + 0, slice(kept, @packed.contended) + 0
    end, head, sub)
  -- Also false for NaN and infinity, which strtod accepts.
  if not (sound and epoch >= 1 and window >= 1000 and target >= 0 and target < 1e13 and share >= 0 and share < 1e13
    and closed_until < 1e16 and offset < 1e16 and touched < 1e16 and burst >= 0 and burst < 1e13
    and contended < 1e16) then
    return {-1, 1}
  end
  now = now + offset
  if now < touched then
    offset = offset + touched - now
    now = touched
    stepped = true
  end
end
