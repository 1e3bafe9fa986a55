package envoylimit

import (
	"container/list"
	"sync"
)

// recent is the limits used last, by their ids. The zero value has none.
type recent struct {
	mu    sync.Mutex
	order list.List                // of *limit, the one used last in front
	all   map[string]*list.Element // of order
}

// get returns the limit of an id, which create makes if it is not remembered. Beyond so many, those
// that were not used for longest are forgotten.
func (r *recent) get(id string, most int, create func() *limit) *limit {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.all[id]; e != nil {
		r.order.MoveToFront(e)
		return e.Value.(*limit)
	}
	if r.all == nil {
		r.all = make(map[string]*list.Element)
	}
	l := create()
	r.all[id] = r.order.PushFront(l)
	for r.order.Len() > most {
		delete(r.all, r.order.Remove(r.order.Back()).(*limit).rule.ID)
	}
	return l
}

// size is how many are remembered.
func (r *recent) size() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.all)
}
