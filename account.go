package shardlimit

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/shardlimit/shardlimit/internal/lane"
)

// account is what one participant of this process has to do with one limit: its
// line of waiters, its leases, and its seat at every shard.
type account struct {
	core        *core
	name        string // of the participant
	invalid     error  // why it cannot be used
	lane.Member        // what shards are told of it
	queue       queue
	leases      leases

	last  atomic.Pointer[view]
	mu    sync.Mutex
	seats map[*lane.Lane]*lane.Seat
}

func newAccount(c *core, who participant) *account {
	who = who.identified()
	a := &account{core: c, name: who.name, invalid: who.invalid}
	a.ID, a.Weight = who.id, who.weight
	a.queue.account, a.leases.account = a, a
	return a
}

// view is a limit as one of its participants sees it: the table in force, with
// the participant's seats.
type view struct {
	*table
	account *account
	seats   []*lane.Seat // in the order of preference
	visit   []*lane.Seat // in the order of the layout, which is the same for every process
}

// view returns the account's view of a table.
func (a *account) view(t *table) *view {
	if v := a.last.Load(); v != nil && v.table == t {
		return v
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	v := &view{table: t, account: a}
	for _, l := range t.order {
		v.seats = append(v.seats, a.seat(l))
	}
	for _, l := range t.lanes {
		v.visit = append(v.visit, a.seat(l))
	}
	a.last.Store(v)
	return v
}

// place is that of a seat in the order of preference.
func (v *view) place(s *lane.Seat) int { return slices.Index(v.seats, s) }

// seat is the account's seat at a shard. a.mu is held.
func (a *account) seat(l *lane.Lane) *lane.Seat {
	s := a.seats[l]
	if s == nil {
		if a.seats == nil {
			a.seats = make(map[*lane.Lane]*lane.Seat)
		}
		s = lane.NewSeat(&a.Member, l)
		a.seats[l] = s
	}
	return s
}

// turnedAway notes the permits that a call wanted and finally did not get. Nobody
// can want more than there are.
func (a *account) turnedAway(d *Decision, n int64) {
	if n = min(n, d.Limit); !d.Degraded && n > d.Granted {
		a.Turned.Add(n - d.Granted)
	}
}

// doubt forgets that nothing is free, so that the next call asks Redis.
func (a *account) doubt(t *table) {
	a.core.ahead.Store(nil)
	if t != nil {
		for _, s := range a.view(t).seats {
			s.Open()
		}
	}
}
