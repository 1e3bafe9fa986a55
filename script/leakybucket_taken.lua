--@needs closed delay delay_part epoch reply share start target window
-- Leaky bucket, take, at the end: quarantine and layout, then when the permits act: delay of the
-- first us + a part of a us over share, window us.
--@include meter_rest
reply[@reply.start], reply[@reply.closed] = start, closed
reply[@reply.epoch], reply[@reply.target], reply[@reply.share] = epoch, target, share
reply[@take.delay], reply[@take.part], reply[@take.window] = delay, delay_part, window
