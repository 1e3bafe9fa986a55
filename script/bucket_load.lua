--@needs advance head own parse
-- Token and leaky bucket: read the rest of the state, and bring it to now.
if head then
  local sound, own = pcall(parse, own)
  if not (sound and own) then
    return {-1, 1}
  end
  advance()
end
