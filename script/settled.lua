-- Settle, at the end: what came of it.
reply[@settle.back], reply[@settle.repeated] = refunded, repeated
