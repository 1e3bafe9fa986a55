--@needs delay delay_part reply start window
-- Leaky bucket, take, at the end: quarantine and layout, then when the permits act: delay of the
-- first us + a part of a us over share, window us.
--@include packed_rest
reply[@reply.start] = start
--@include reply_layout
reply[@take.delay], reply[@take.part], reply[@take.window] = delay, delay_part, window
