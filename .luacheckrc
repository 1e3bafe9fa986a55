-- luacheck: names in the assembled scripts that nobody defines, reads or sets, that hide others, or
-- whose values are lost. How long lines are is seen to where they are written.
std = {
  read_globals = {
    'ARGV', 'KEYS', 'assert', 'ipairs', 'pairs', 'pcall', 'tonumber', 'type', 'unpack',
    math = {fields = {'ceil', 'floor', 'max', 'min', 'sqrt'}},
    redis = {fields = {'call', 'pcall'}},
    string = {fields = {'find', 'format', 'match', 'rep', 'sub'}},
    table = {fields = {'insert'}},
  },
}
max_line_length = false
ignore = {
  '321/before', -- nil until it is read: see slidinglog_rest.lua
  '431', -- a function or a loop may have a name of its own that another part of the program has, too
  '421/count',
}
