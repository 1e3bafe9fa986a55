package shardlimit

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/shardlimit/shardlimit/fairness"
	"github.com/shardlimit/shardlimit/internal/striped"
	"github.com/shardlimit/shardlimit/script"
)

// account is what one participant of this process has to do with one limit: its
// line of waiters, its leases, and its seat at every shard.
type account struct {
	core   *core
	who    participant
	queue  queue
	leases leases

	// turned counts the permits of calls that were finally turned away. Every
	// shard is told of those since it was last told, so that it knows who wants more than it gets.
	turned striped.Tally

	last  atomic.Pointer[view]
	mu    sync.Mutex
	seats map[*lane]*seat
}

func newAccount(c *core, who participant) *account {
	a := &account{core: c, who: who.identified()}
	a.queue.account, a.leases.account = a, a
	return a
}

// seat is a participant's place at one shard, as far as fairness goes.
type seat struct {
	account *account
	lane    *lane

	// notBefore is when the shard wants to see this participant again, on the
	// client's clock: until then its part is used up, though permits may be free.
	notBefore atomic.Int64
	contended atomic.Bool  // whether participants contended at the last reply
	slot      atomic.Int32 // where the shard keeps the account, as last heard; -1 unknown
	reported  atomic.Int64 // of turned
	sentAt    atomic.Int64 // when the call was sent that this was last heard in reply to
}

// paced reports whether the participant is to keep away from the shard at this time.
func (s *seat) paced(now int64) bool { return now < s.notBefore.Load() }

// shut reports whether the shard is known to have nothing for this participant.
func (s *seat) shut(now int64) bool { return s.lane.known.shut(now) || s.paced(now) }

// open forgets why the shard was not to be asked.
func (s *seat) open() {
	s.lane.known.open()
	s.notBefore.Store(0)
}

// name tells the shard whose seat it is.
func (s *seat) name() script.Seat {
	return script.Seat{ID: s.account.who.id, Slot: int(s.slot.Load()), Weight: s.account.who.weight}
}

// report is what the shard is told of this participant with the next call.
//
// A call that was turned away had tried the shards of its order, and how its
// demand is divided among them is not known. Telling each of two shards the whole
// of it, and each of more 2/N, was found best by simulation.
func (s *seat) report(shards int64) script.Seat {
	turned := s.account.turned.Sum()
	news := max(0, turned-s.reported.Swap(turned)) // a call that the watchdog gave up may come late
	waiting := s.account.queue.unserved.Load()
	r := s.name()
	r.Turned = min(min(news, script.MaxPermits)*min(1000, 2000/shards), fairness.MaxReport)
	r.Waiting = min((waiting+shards-1)/shards, fairness.MaxReport)
	return r
}

// learn takes in what the shard said of this participant, in reply to a call that was sent and answered at these times.
//
// The wait is counted from halfway between the two, about when the shard spoke. Counted from when the call was sent, every other participant that comes
// back as soon as it may would come a little too early, in vain, and lose its turn.
//
// The shard reckons with the share that it has. While that is on its way from or to other shards, the wait is no longer than what is believed of a
// shard that is empty: told by one that has 3 of 500 permits yet, it could be a whole window, in which nobody would come for the other 497.
func (s *seat) learn(sent, received int64, r *script.TakeReply, i int) {
	if sent < s.sentAt.Load() { // calls overlap: this reply tells of what was before
		return
	}
	s.sentAt.Store(sent)
	if !r.Contended {
		if s.contended.Load() {
			s.contended.Store(false)
			s.notBefore.Store(0)
		}
		return
	}
	s.contended.Store(true)
	s.slot.Store(int32(r.Seats[i].Slot))
	s.notBefore.Store(0)
	if wait := r.Seats[i].Retry; wait > 0 {
		if r.Share != r.Target {
			wait = min(wait, shutCap(s.lane.terms.Load().window))
		}
		s.notBefore.Store(sent + (received-sent)/2 + int64(wait))
	}
}

// view is a limit as one of its participants sees it: the table in force, with
// the participant's seats.
type view struct {
	*table
	account *account
	seats   []*seat // in the order of preference
	visit   []*seat // in the order of the layout, which is the same for every process
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
func (v *view) place(s *seat) int { return slices.Index(v.seats, s) }

// seat is the account's seat at a shard. a.mu is held.
func (a *account) seat(l *lane) *seat {
	s := a.seats[l]
	if s == nil {
		if a.seats == nil {
			a.seats = make(map[*lane]*seat)
		}
		s = &seat{account: a, lane: l}
		s.slot.Store(-1)
		a.seats[l] = s
	}
	return s
}

// turnedAway notes the permits that a call wanted and finally did not get. Nobody
// can want more than there are.
func (a *account) turnedAway(d *Decision, n int64) {
	if n = min(n, d.Limit); !d.Degraded && n > d.Granted {
		a.turned.Add(n - d.Granted)
	}
}

// doubt forgets that nothing is free, so that the next call asks Redis.
func (a *account) doubt(t *table) {
	a.core.ahead.Store(nil)
	if t != nil {
		for _, s := range a.view(t).seats {
			s.open()
		}
	}
}
