--@needs closed closed_until epoch reply share target
-- Take and reserve: the layout in force, for a caller that cannot know it. What is left of a
-- quarantine, or below zero what tells it from others, once it is over.
reply[@reply.closed] = closed > 0 and closed or -closed_until
reply[@reply.epoch], reply[@reply.target], reply[@reply.share] = epoch, target, share
