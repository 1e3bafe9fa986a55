--@needs closed delay epoch part reply share start target window
-- Leaky bucket, take, at the end: quarantine and layout, then when the permits act: delay of the first us + a part of a us over share, window us.
--@include meter_rest
reply[2], reply[10], reply[11], reply[12], reply[13], reply[14], reply[15], reply[16] = start, closed, epoch, target, share, delay, part, window
