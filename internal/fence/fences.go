package fence

import "sync"

// Fences are those of a process. It is safe for concurrent use.
type Fences struct {
	env *Env
	mu  sync.Mutex
	all map[string]*Fence // by ID
}

// NewFences returns fences of which none is known yet.
func NewFences(env *Env) *Fences { return &Fences{env: env, all: make(map[string]*Fence)} }

// mostFences bounds how many memberships a process keeps track of: a stored layout names one.
const mostFences = 64

// Of returns the fence of the membership at these places; nil if there can be none, or there are
// too many.
func (f *Fences) Of(places []string) *Fence {
	id := ID(places)
	f.mu.Lock()
	defer f.mu.Unlock()
	if known := f.all[id]; known != nil || len(f.all) >= mostFences {
		return known
	}
	made, err := New(f.env, places)
	if err != nil {
		return nil
	}
	f.all[id] = made
	return made
}

// Nodes tells of the nodes of all memberships which of them are out, as last heard.
func (f *Fences) Nodes() map[string]bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make(map[string]bool)
	for _, one := range f.all {
		if m, known := one.Membership(); known {
			for _, n := range m.Nodes {
				out[n.Name] = out[n.Name] || n.Out
			}
		}
	}
	return out
}
