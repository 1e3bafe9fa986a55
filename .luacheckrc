-- luacheck: names in the assembled scripts that nobody defines, reads or sets, that hide others, or
-- whose values are lost. How long lines are is seen to where they are written.
std = {
  read_globals = {
    'assert', 'ipairs', 'pairs', 'pcall', 'tonumber', 'type', 'unpack',
    math = {fields = {'ceil', 'floor', 'max', 'min', 'sqrt'}},
    redis = {fields = {'call', 'pcall'}},
    string = {fields = {'find', 'format', 'match', 'sub'}},
    table = {fields = {'insert'}},
  },
}
max_line_length = false
ignore = {
  '321/before', -- nil until it is read: see slidinglog_rest.lua
  '431/ceil', '431/floor', -- functions get their own, which cost less than those of others
  '431/share', -- fairness goes by what a share rises to
}
