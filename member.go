package shardlimit

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/shardlimit/shardlimit/internal/lane"
	"github.com/shardlimit/shardlimit/internal/local"
)

// member is what one participant of this process has to do with one limit: its
// line of waiters, its leases, and its seat at every shard.
type member struct {
	core        *core
	name        string                       // of the participant
	invalid     error                        // why it cannot be used
	lane.Member                              // what shards are told of it
	waiting     atomic.Pointer[queue]        // nil until somebody waits
	engine      atomic.Pointer[local.Engine] // of a limit of Scope PerParticipant; nil until it is asked
	leases      leases

	last  atomic.Pointer[view]
	mu    sync.Mutex
	seats []*lane.Seat
	first struct { // in one piece with the member
		view  view
		seat  lane.Seat
		seats [1]*lane.Seat
	}
}

func newMember(c *core, who participant) *member {
	m := &member{}
	m.is(who, c)
	return m
}

// is makes a zero member that of a participant.
func (m *member) is(who participant, c *core) {
	who = who.identified()
	m.core, m.name, m.invalid = c, who.name, who.invalid
	m.ID, m.Weight = who.id, who.weight
	m.leases.member = m
}

// view is a limit as one of its participants sees it: the routes in force, with
// the participant's seats.
type view struct {
	*routes
	member *member
	seats  []*lane.Seat  // in the order of preference
	visit  []*lane.Seat  // in the order of the layout, which is the same for every process
	only   [1]*lane.Seat // of seats, as a rule
}

// view returns the member's view of routes.
func (m *member) view(r *routes) *view {
	if v := m.last.Load(); v != nil && v.routes == r {
		return v
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	v := &m.first.view
	if v.member != nil {
		v = &view{}
	}
	v.routes, v.member, v.seats = r, m, v.only[:0]
	m.seats = slices.DeleteFunc(m.seats, func(s *lane.Seat) bool { return s.Lane.Gone.Load() })
	for _, l := range r.order {
		v.seats = append(v.seats, m.seat(l))
	}
	if v.visit = v.seats; r.split {
		v.visit = nil
		for _, l := range r.lanes {
			v.visit = append(v.visit, m.seat(l))
		}
	}
	m.last.Store(v)
	return v
}

// place is that of a seat's shard in the order of preference. A call that goes on after the layout
// has changed may have taken its seat from an earlier view of the same routes.
func (v *view) place(s *lane.Seat) int {
	return slices.IndexFunc(v.seats, func(o *lane.Seat) bool { return o.Lane == s.Lane })
}

// seat is the member's seat at a shard. m.mu is held.
func (m *member) seat(l *lane.Lane) *lane.Seat {
	for _, s := range m.seats {
		if s.Lane == l {
			return s
		}
	}
	s := &m.first.seat
	if m.seats == nil {
		m.seats = m.first.seats[:0]
	} else {
		s = &lane.Seat{}
	}
	m.seats = append(m.seats, s.Take(&m.Member, l))
	return s
}

// queue is the member's line of waiters.
func (m *member) queue() *queue {
	return made(&m.waiting, func() *queue { return &queue{member: m} })
}

// forgetDenials forgets that nothing is free, so that the next call asks Redis.
func (m *member) forgetDenials(r *routes) {
	m.core.ahead.Store(nil)
	if r != nil {
		for _, s := range m.view(r).seats {
			s.Open()
		}
	}
}
