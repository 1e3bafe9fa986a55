--@needs now window
--@gives cut
-- Sliding log: what has left the window, for operations that adopt nothing.
local cut = now - window
