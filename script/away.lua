--@gives away
-- Whether a server said that a key is not there although only its slot is on its way: then it is
-- not known whether there is one.
local function away(reply)
  return string.find(reply.err, '@NOT_HERE', 1, true)
end
