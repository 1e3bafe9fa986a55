-- Leaky bucket, take, at the end: when the permits act: delay of the first us + a part of a us over
-- share, window us.
reply[@take.delay], reply[@take.part], reply[@take.window] = delay, delay_part, window
