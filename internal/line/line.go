// Package line lets callers go one after the other.
package line

import (
	"context"
	"slices"
	"sync"

	"github.com/shardlimit/shardlimit/internal/clock"
)

// Line is a queue of callers of whom one at a time goes: first come, first served. It is
// safe for concurrent use.
type Line struct {
	mu    sync.Mutex
	order []chan struct{} // closed when its owner may go: that of the first is
}

// Len is how many callers are in the line.
func (l *Line) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.order)
}

// Join waits until the caller may go, at most until ctx ends. Who may go must leave.
func (l *Line) Join(ctx context.Context) (leave func(), err error) {
	place := make(chan struct{})
	l.mu.Lock()
	l.order = append(l.order, place)
	if len(l.order) == 1 {
		close(place)
	}
	l.mu.Unlock()
	select {
	case <-place:
		return func() { l.leave(place) }, nil
	case <-ctx.Done():
		l.leave(place)
		return nil, clock.Ended(ctx)
	}
}

func (l *Line) leave(place chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.order, place)
	l.order = slices.Delete(l.order, i, i+1)
	if i == 0 && len(l.order) > 0 {
		close(l.order[0])
	}
}
