--@needs booked closed delay epoch paced reply share target
-- One-string algorithms, reserve, at the end: quarantine, layout, delay until the permits may be
-- used us, permits booked ahead, pay if it is why nothing was booked, else 0.
--@include meter_rest
reply[@reply.closed] = closed
reply[@reply.epoch], reply[@reply.target], reply[@reply.share] = epoch, target, share
reply[@reserve.delay], reply[@reserve.booked], reply[@reserve.paced] = delay, booked(), paced
