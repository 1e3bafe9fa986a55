--@needs delay paced reply
-- One-string algorithms, reserve, at the end: delay until the permits may be used us, pay if it is
-- why nothing was booked, else 0.
reply[@reserve.delay], reply[@reserve.paced] = delay, paced
