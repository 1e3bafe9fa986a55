-- Numbers as bytes, the highest first. Redis has functions for it. They are here, for forms of "I"
-- and a width alone, where it has none (miniredis), or where they cut a number off to 32 bits.
local struct = rawget(_G, 'struct')
if not struct or struct.unpack('>I7', '\0\1\0\0\0\0\0', 1) ~= 2 ^ 40 then
  struct = {}
end
local pack, numbers = struct.pack or function(form, ...)
  local all, i = {...}, 0
  return (string.gsub(form, '%D*(%d)', function(width)
    local bytes = ''
    i = i + 1
    for _ = 1, width + 0 do
      all[i], bytes = math.floor(all[i] / 256), string.char(all[i] % 256) .. bytes
    end
    return bytes
  end))
end, struct.unpack or function(form, text, at)
  local all = {}
  for width in string.gmatch(form, '%d') do
    local n = 0
    for _ = 1, width + 0 do
      n, at = n * 256 + string.byte(text, at), at + 1
    end
    all[#all + 1] = n
  end
  return unpack(all)
end
