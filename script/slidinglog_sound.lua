--@needs damaged
-- Sliding log, settle: a log that was evicted is left to takes, which know what to do then.
if damaged then
  return {-1, 2}
end
