--@needs as_proposed closed peak share target
--@gives available
-- Sliding log: what can be granted now, and what a window may hold.
local ceiling = (as_proposed or share < target) and share or target
local available = closed == 0 and peak < ceiling and ceiling - peak or 0
