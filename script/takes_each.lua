--@needs take
-- Takes, last part: decide for one section after the other.
--
-- KEYS  those of all sections
-- ARGV  1 the sections; then arguments of takes, which sections may have in common
--@layout section
-- Reply: of each section what its take replies, or -6 and what was raised instead. Then the section
-- may have written.
local sub = string.sub
local sections, replies, key, given = ARGV[1], {}, 0, {}
for at = 1, #sections, @section.bytes do
  local section = sub(sections, at, at + @section.bytes - 1)
  local count, from = sub(section, @section.keys) + 0, sub(section, @section.arguments) + 0
  local keys = {KEYS[key + 1], KEYS[key + 2], count == 3 and KEYS[key + 3] or nil}
  key = key + count
  local arguments = given[from]
  if not arguments then
    arguments = {ARGV[from], ARGV[from + 1], ARGV[from + 2]}
    given[from] = arguments
  end
  local sound, reply = pcall(take[sub(section, @section.algorithm)], keys, arguments)
  replies[#replies + 1] = sound and reply or {-6, type(reply) == 'table' and reply.err or reply}
end
return replies
