package wait

import "github.com/shardlimit/shardlimit/internal/call"

// Waiting returns the number of callers in the line of a limiter, and when the head of it can be
// served at the earliest, 0 if that is not known. It is for tests of other packages.
func Waiting(l *call.Limiter) (callers int, notBefore int64) {
	m := l.Hold()
	defer m.Target.Release()
	q := lineOf(m)
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.line.Len(), q.notBefore
}
