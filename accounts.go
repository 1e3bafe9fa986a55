package shardlimit

import (
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"
)

// otherAccounts is how many participants other than the process itself are
// remembered for one limit. One that was forgotten works as before: its next call
// asks Redis again.
const otherAccounts = 1024

// accounts are those that a process has with one limit: its own, and those of
// the participants it calls for.
type accounts struct {
	own *account

	mu     sync.Mutex
	others *lru.Cache[string, *account] // nil until there is one
}

// of returns the account of a participant of the limit.
func (as *accounts) of(who participant) *account {
	if own := as.own; who.name == own.who.name && who.weight == own.who.weight {
		return own
	}
	as.mu.Lock()
	defer as.mu.Unlock()
	if as.others == nil {
		as.others, _ = lru.New[string, *account](otherAccounts) // fails only for a size below 1
	}
	a, ok := as.others.Get(who.name)
	if !ok || a.who.weight != who.weight {
		a = newAccount(as.own.core, who)
		as.others.Add(who.name, a)
	}
	return a
}

// all returns every account, the process' own first.
func (as *accounts) all() []*account {
	as.mu.Lock()
	defer as.mu.Unlock()
	all := []*account{as.own}
	if as.others != nil {
		all = append(all, as.others.Values()...)
	}
	return all
}

// open forgets why the shards of a table were not to be asked.
func (as *accounts) open(t *table) {
	for _, a := range as.all() {
		for _, s := range a.view(t).seats {
			s.open()
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
