-- Settle, before anything of the grant is touched: what is to be done, which is nothing if it was
-- done before. The mark goes first, because a server that refuses it refuses everything.
--
-- ARGV  1, 2 the proposal, as packed_adopt.lua says; of epoch 0 unless there is a charge
--       3 permits that come back of the grant made  4 at
--       5 permits that are charged  6 us: after how long a bucket must be full again
--       7 what was used  8 ms: how long the mark KEYS[#KEYS-1] is kept; 0: there is none
--       9, 10 of whom: see fair_used.lua
-- Reply as a take makes it that asks for nothing, `granted` being what was charged; then permits
-- that came back, and whether it was settled before: 0 no, 1 with the same use, 2 with another
local back, charge, repeated = ARGV[3] + 0, ARGV[5] + 0, 0
if ARGV[8] ~= '0' then
  local marked = redis.pcall('SET', KEYS[#KEYS - 1], ARGV[7], 'NX', 'PX', ARGV[8])
  if not marked then
    back, charge = 0, 0
    repeated = redis.pcall('GET', KEYS[#KEYS - 1]) == ARGV[7] and 1 or 2
  elseif marked.err then
    return {-2, marked.err}
  end
end
