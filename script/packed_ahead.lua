--@needs booked
--@gives ahead
-- One-string algorithms, before fair_charge.lua: how many permits are booked ahead.
local ahead = booked()
