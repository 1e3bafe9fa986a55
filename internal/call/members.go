package call

import (
	"maps"
	"slices"
	"sync"

	"github.com/shardlimit/shardlimit/internal/limit"
)

// members are the participants of one limit in a process: itself, and those that it calls for.
type members struct {
	own *Member

	mu     sync.Mutex
	others map[string]*Member // nil until there is one
	lines  []Line             // in which callers wait
}

// mostOthers is how many participants beside the process itself are remembered of a limit. One that
// was forgotten works as before: its next call asks Redis again. It may take about 1 KB, or 4 KB in
// a limit of Scope PerParticipant.
const mostOthers = 16_384

// of returns the member of a participant of the limit.
func (ms *members) of(who limit.Participant) *Member {
	if own := ms.own; who.Name == own.name && who.Weight == own.Weight {
		return own
	}
	ms.mu.Lock()
	defer ms.mu.Unlock()
	old := ms.others[who.Name]
	if old != nil && old.Weight == who.Weight {
		return old
	}
	m := NewMember(ms.own.Target, who)
	if who.Name == ms.own.name {
		old = ms.own
	}
	if old != nil {
		m.engine.Store(old.alone()) // what it used counts under any weight
	}
	if ms.others == nil {
		ms.others = make(map[string]*Member)
	}
	for name := range ms.others { // whichever comes first
		if len(ms.others) < mostOthers {
			break
		}
		delete(ms.others, name)
	}
	ms.others[who.Name] = m
	return m
}

// all returns every member, the process' own first.
func (ms *members) all() []*Member {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	all := []*Member{ms.own}
	for _, name := range slices.Sorted(maps.Keys(ms.others)) {
		all = append(all, ms.others[name])
	}
	return all
}

// Waits has a line woken from now on: somebody waits in it.
func (ms *members) Waits(l Line) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	ms.lines = append(ms.lines, l)
}

// Ends has a line not woken any more: it is empty.
func (ms *members) Ends(l Line) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if i := slices.Index(ms.lines, l); i >= 0 {
		ms.lines = slices.Delete(ms.lines, i, i+1)
	}
}

func (ms *members) waiting() []Line {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	return slices.Clone(ms.lines)
}

// Wake has everybody who waits look again at once. With anew they begin anew: usage was forgotten,
// or the limit changed.
func (ms *members) Wake(anew bool) {
	for _, l := range ms.waiting() {
		l.Wake(anew)
	}
}

// Line is the callers of one participant that wait for permits of one limit.
type Line interface {
	// Wake has the head of the line look again at once. With anew it begins anew: usage was
	// forgotten, or the limit changed.
	Wake(anew bool)
	// Len returns the number of callers.
	Len() int
}

// Line returns the member's line of waiters, and has it made if there is none.
func (m *Member) Line(fresh func() Line) Line {
	return *made(&m.Waiting, func() *Line { l := fresh(); return &l })
}
