package shardlimit

import (
	"maps"
	"slices"
	"sync"
)

// accounts are those that a process has with one limit: its own, and those of
// the participants it calls for.
type accounts struct {
	own *account

	mu     sync.Mutex
	others map[string]*account // those that the Client remembers; nil until there is one
}

// of returns the account of a participant of the limit.
func (as *accounts) of(who participant) *account {
	if own := as.own; who.name == own.name && who.weight == own.Weight {
		return own
	}
	a := as.other(who)
	as.own.core.client.visitors.Saw(as, who.name)
	return a
}

func (as *accounts) other(who participant) *account {
	as.mu.Lock()
	defer as.mu.Unlock()
	a := as.others[who.name]
	if a == nil || a.Weight != who.weight {
		if as.others == nil {
			as.others = make(map[string]*account)
		}
		a = newAccount(as.own.core, who)
		as.others[who.name] = a
	}
	return a
}

// ForgetVisitor ends what is remembered of a participant.
func (as *accounts) ForgetVisitor(name string) {
	as.mu.Lock()
	defer as.mu.Unlock()
	delete(as.others, name)
}

// close forgets every participant but the process itself.
func (as *accounts) close() {
	for _, a := range as.all()[1:] {
		as.own.core.client.visitors.Leave(as, a.name)
	}
}

// all returns every account, the process' own first.
func (as *accounts) all() []*account {
	as.mu.Lock()
	defer as.mu.Unlock()
	all := []*account{as.own}
	if len(as.others) > 0 {
		all = slices.AppendSeq(all, maps.Values(as.others))
	}
	return all
}

// open forgets why the shards of a table were not to be asked.
func (as *accounts) open(t *table) {
	for _, a := range as.all() {
		for _, s := range a.view(t).seats {
			s.Open()
		}
	}
}

// wake has everybody who waits look again at once.
func (as *accounts) wake() {
	for _, a := range as.all() {
		a.queue.wake()
	}
}

// upset has everybody who waits begin anew: usage was forgotten or the limit changed.
func (as *accounts) upset() {
	for _, a := range as.all() {
		a.queue.upset()
	}
}

// waiters is how many calls are blocked.
func (as *accounts) waiters() (n int) {
	for _, a := range as.all() {
		n += a.queue.len()
	}
	return n
}

// retire ends the leases of other layouts than that of a table.
func (as *accounts) retire(t *table) {
	for _, a := range as.all() {
		if l := a.leases.current.Load(); l != nil && l.epoch != t.layout.Epoch {
			a.leases.retire(l)
		}
	}
}
