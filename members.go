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
	others map[string]*member // nil until there is one
}

// mostOthers is how many participants beside the process itself are remembered of a limit. One that
// was forgotten works as before: its next call asks Redis again. It may take about 1 KB, or 4 KB in
// a limit of Scope PerParticipant.
const mostOthers = 16_384

// of returns the member of a participant of the limit.
func (ms *members) of(who participant) *member {
	if own := ms.own; who.name == own.name && who.weight == own.Weight {
		return own
	}
	ms.mu.Lock()
	defer ms.mu.Unlock()
	old := ms.others[who.name]
	if old != nil && old.Weight == who.weight {
		return old
	}
	m := newMember(ms.own.core, who)
	if who.name == ms.own.name {
		old = ms.own
	}
	if old != nil {
		m.engine.Store(old.alone()) // what it used counts under any weight
	}
	if ms.others == nil {
		ms.others = make(map[string]*member)
	}
	for name := range ms.others { // whichever comes first
		if len(ms.others) < mostOthers {
			break
		}
		delete(ms.others, name)
	}
	ms.others[who.name] = m
	return m
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

// retire ends the leases of other layouts than that of routes.
func (ms *members) retire(r *routes) {
	for _, m := range ms.all() {
		if l := m.leases.current.Load(); l != nil && l.epoch != r.layout.Epoch {
			m.leases.retire(l)
		}
	}
}
