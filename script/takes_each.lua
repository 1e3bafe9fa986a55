--@needs take
-- Takes, last part: decide for one section after the other.
--
-- KEYS  state and ledger of each section; last since when the memory is whole
-- ARGV  1 the sections; then arguments of takes, which sections may have in common
--@layout section
-- Reply: of each section what its take replies, or -6 and what was raised instead. Then the section
-- may have written.
local sub = string.sub
local sections, replies = ARGV[1], {}
for at = 1, #sections, @section.bytes do
  local i, from = #replies + 1, sub(sections, @section.arguments[at]) + 0
  local sound, reply = pcall(take[sub(sections, @section.algorithm[at])], {KEYS[2 * i - 1], KEYS[#KEYS], KEYS[2 * i]},
    {ARGV[from], ARGV[from + 1], ARGV[from + 2]})
  if not sound then
    reply = {-6, type(reply) == 'table' and reply.err or reply}
  end
  replies[i] = reply
end
return replies
