package shardlimit

import (
	"maps"
	"slices"
	"sync"
)

// members are the participants of one limit in a process: itself, and those that it calls for.
type members struct {
	own *member

	mu     sync.Mutex
	others map[string]*member // those that the Client remembers; nil until there is one
}

// of returns the member of a participant of the limit.
func (ms *members) of(who participant) *member {
	if own := ms.own; who.name == own.name && who.weight == own.Weight {
		return own
	}
	m := ms.other(who)
	ms.own.core.client.visitors.Saw(ms, who.name)
	return m
}

func (ms *members) other(who participant) *member {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	m := ms.others[who.name]
	if m == nil || m.Weight != who.weight {
		if ms.others == nil {
			ms.others = make(map[string]*member)
		}
		m = newMember(ms.own.core, who)
		ms.others[who.name] = m
	}
	return m
}

// ForgetVisitor ends what is remembered of a participant.
func (ms *members) ForgetVisitor(name string) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	delete(ms.others, name)
}

// all returns every member, the process' own first.
func (ms *members) all() []*member {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	all := []*member{ms.own}
	if len(ms.others) > 0 {
		for _, name := range slices.Sorted(maps.Keys(ms.others)) {
			all = append(all, ms.others[name])
		}
	}
	return all
}

// open forgets why the shards of routes were not to be asked.
func (ms *members) open(r *routes) {
	for _, m := range ms.all() {
		for _, s := range m.view(r).seats {
			s.Open()
		}
	}
}

// lines are those of all members.
func (ms *members) lines() (all []*queue) {
	for _, m := range ms.all() {
		if q := m.waiting.Load(); q != nil {
			all = append(all, q)
		}
	}
	return all
}

// wake has everybody who waits look again at once.
func (ms *members) wake() {
	for _, q := range ms.lines() {
		q.wake()
	}
}

// restartWaiters has everybody who waits begin anew: usage was forgotten or the limit changed.
func (ms *members) restartWaiters() {
	for _, q := range ms.lines() {
		q.restart()
	}
}

// waiters is how many calls are blocked.
func (ms *members) waiters() (n int) {
	for _, q := range ms.lines() {
		n += q.len()
	}
	return n
}

// retire ends the leases of other layouts than that of routes.
func (ms *members) retire(r *routes) {
	for _, m := range ms.all() {
		if l := m.leases.current.Load(); l != nil && l.epoch != r.layout.Epoch {
			m.leases.retire(l)
		}
	}
}
