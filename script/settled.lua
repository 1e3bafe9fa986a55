--@needs refunded repeated reply
-- Settle, at the end: the layout in force, and what came of it.
--@include reply_layout
reply[@settle.back], reply[@settle.repeated] = refunded, repeated
