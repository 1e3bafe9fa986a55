--@needs booked closed delay epoch paced reply share target
-- One-string algorithms, reserve, at the end: quarantine, layout, delay until the permits may be used us, permits booked ahead, pay if it
-- is why nothing was booked, else 0.
--@include meter_rest
reply[10], reply[11], reply[12], reply[13], reply[14], reply[15] = closed, epoch, target, share, delay, booked()
reply[16] = paced
