package shardlimit

// Waiting is the number of callers in the line of a limiter, for the tests of
// this package.
func (l *Limiter) Waiting() int { return l.core.queue.len() }

// NotBefore is when the head of the line can be served at the earliest, 0 if
// that is not known.
func (l *Limiter) NotBefore() int64 {
	l.core.queue.mu.Lock()
	defer l.core.queue.mu.Unlock()
	return l.core.queue.notBefore
}
