--@gives MAGIC TAKES
-- One-string algorithms, before anything else: how the string begins, and whether the operation is
-- a take.
local MAGIC, TAKES = '@MAGIC', @TAKES
