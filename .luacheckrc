-- luacheck: names in the assembled scripts that nobody defines, reads or sets, that hide others, or
-- whose values are lost. How long lines are is seen to where they are written.
std = {
  read_globals = {
    'ARGV', 'KEYS', '_G', 'assert', 'error', 'ipairs', 'pairs', 'pcall', 'rawget', 'tonumber', 'type', 'unpack',
    math = {fields = {'ceil', 'floor', 'max', 'min', 'sqrt'}},
    redis = {fields = {'call', 'pcall'}},
    string = {fields = {'byte', 'char', 'find', 'format', 'gmatch', 'gsub', 'match', 'rep', 'sub'}},
    table = {fields = {'concat'}},
  },
}
max_line_length = false
ignore = {
  '43', -- a function or a loop may have a name of its own that another part of the program has, too
  -- parts that are included look again at what is stored, which may have changed meanwhile
  '411/back', '421/count', '421/left',
}
