--@needs closed epoch reply share target
-- Take and reserve: what is left of a quarantine, and the layout in force, for a caller that cannot
-- know it.
reply[@reply.closed], reply[@reply.epoch] = closed, epoch
reply[@reply.target], reply[@reply.share] = target, share
