package lane

import (
	"maps"
	"slices"
	"sync"
)

// air is the calls with asks that are under way in a process.
type air struct {
	mu    sync.Mutex
	calls map[interface{ ring() }]struct{}
}

func (a *air) add(call interface{ ring() }) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.calls == nil {
		a.calls = make(map[interface{ ring() }]struct{})
	}
	a.calls[call] = struct{}{}
}

func (a *air) remove(call interface{ ring() }) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.calls, call)
}

// Abandon ends the calls that are under way without waiting for their replies, and those that are
// parked. The client is closed.
func (e *Env) Abandon() {
	e.unpark()
	e.air.mu.Lock()
	all := slices.Collect(maps.Keys(e.air.calls))
	e.air.mu.Unlock()
	for _, call := range all {
		call.ring()
	}
}
