-- One-string algorithms, reserve, at the end: quarantine, layout, delay until the permits may be used us, permits booked ahead.
reply[10], reply[11], reply[12], reply[13], reply[14], reply[15] = closed, epoch, target, share, delay, booked()
return reply
