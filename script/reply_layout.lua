--@needs closed epoch reply share target
-- Take and reserve: the layout in force, for a caller that cannot know it.
reply[@reply.closed] = closed
reply[@reply.epoch], reply[@reply.target], reply[@reply.share] = epoch, target, share
