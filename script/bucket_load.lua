-- Token and leaky bucket: read the rest of the state, and bring it to now.
if head then
  local sound, whole = pcall(parse, own)
  if not (sound and whole) then
    return {-1, 1}
  end
  advance()
end
