// Package turns lets callers have their turn one after the other.
package turns

import (
	"context"
	"slices"
	"sync"
)

// Line is a queue of callers of whom one at a time has its turn: first come, first served. It is
// safe for concurrent use.
type Line struct {
	mu    sync.Mutex
	order []chan struct{} // closed when its owner's turn has come: that of the first is
}

// Len is how many callers are in the line.
func (l *Line) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.order)
}

// Join waits for the caller's turn, at most until ctx ends. Who got it must leave.
func (l *Line) Join(ctx context.Context) (leave func(), err error) {
	turn := make(chan struct{})
	l.mu.Lock()
	l.order = append(l.order, turn)
	if len(l.order) == 1 {
		close(turn)
	}
	l.mu.Unlock()
	select {
	case <-turn:
		return func() { l.leave(turn) }, nil
	case <-ctx.Done():
		l.leave(turn)
		return nil, context.Cause(ctx)
	}
}

func (l *Line) leave(turn chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.order, turn)
	l.order = slices.Delete(l.order, i, i+1)
	if i == 0 && len(l.order) > 0 {
		close(l.order[0])
	}
}
