package fence

import (
	"context"
	"maps"
	"sync"
	"time"
)

// Fences are those of a process. It is safe for concurrent use.
type Fences struct {
	env *Env
	mu  sync.Mutex
	all map[string]*Fence // by ID
	// moves holds a token for each limit that follows its nodes now.
	moves chan struct{}
}

// NewFences returns fences of which none is known yet.
func NewFences(env *Env) *Fences {
	return &Fences{env: env, all: make(map[string]*Fence), moves: make(chan struct{}, movesAtOnce)}
}

// movesAtOnce bounds how many limits of a process follow their nodes at a time: there may be
// thousands, and calls are to be served meanwhile.
const movesAtOnce = 8

// Take waits until a limit may follow its nodes, and reports false if ctx ended before. Done has to
// be called after.
func (f *Fences) Take(ctx context.Context) bool {
	select {
	case f.moves <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// Done lets another limit follow its nodes.
func (f *Fences) Done() { <-f.moves }

const (
	// mostFences bounds how many memberships a process keeps track of: a stored layout names one.
	mostFences = 64
	// idleAfter is after how long without a look a membership is in use no more.
	idleAfter = time.Minute
)

// Of returns the fence of the membership at these places; nil if there can be none, or there are
// too many.
func (f *Fences) Of(places []string) *Fence {
	id := ID(places)
	f.mu.Lock()
	defer f.mu.Unlock()
	if known := f.all[id]; known != nil {
		return known
	}
	if len(f.all) >= mostFences {
		maps.DeleteFunc(f.all, func(_ string, one *Fence) bool { return one.idle() })
	}
	if len(f.all) >= mostFences {
		return nil
	}
	made, err := New(f.env, places)
	if err != nil {
		return nil
	}
	f.all[id] = made
	return made
}

// idle reports whether nobody has looked at the membership for long: no limit in use is under it.
func (f *Fence) idle() bool {
	return f.env.Nodes.Clock.Elapsed()-f.lookedAt.Load() > int64(idleAfter)
}

// Nodes tells of the nodes of all memberships in use which of them are out, as last heard.
func (f *Fences) Nodes() map[string]bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make(map[string]bool)
	for _, one := range f.all {
		if m, known := one.Membership(); known && !one.idle() {
			for _, n := range m.Nodes {
				out[n.Name] = out[n.Name] || n.Out
			}
		}
	}
	return out
}
