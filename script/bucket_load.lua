--@needs advance head parse
-- Token and leaky bucket: read the rest of the state, and bring it to now.
if head then
  local sound, own = pcall(parse, head)
  if not (sound and own) then
    return {-1, 1}
  end
  advance()
end
