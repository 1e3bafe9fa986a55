package schedules

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// schedule is one under way.
type schedule struct {
	*testing.T
	*rand.Rand
	plan     *schedulePlan
	tally    *tally
	stations []*station
	clients  []*shardlimit.Client
	admin    *shardlimit.Client
	main     *guarded   // of which the workers call, too, and which changes
	limits   []*guarded // all of them
	workers  []*hand
	prefix   string
	takeover bool // limits are declared with it
	mild     bool // nothing happens for which docs/failures.md allows more than the limit
}

func (s *schedule) play() {
	s.takeover = s.IntN(4) > 0
	s.begin(s.drawLimit())
	if s.IntN(3) == 0 {
		s.guardKeys(2, shardlimit.Limit{Permits: 20 + s.Int64N(40), Per: time.Second,
			Algorithm: limittest.Algorithms[s.IntN(len(limittest.Algorithms))]})
	}
	s.guardDeleted()
	s.start()
	for range 1 + s.IntN(2) {
		s.workers = append(s.workers, s.hireHand())
	}
	s.disturb(s.plan.events)
	s.dismissHands()
	for _, g := range s.limits {
		g.stop()
		g.nothingIsStranded()
		g.judge()
	}
}

// start has all limits called.
func (s *schedule) start() {
	for _, g := range s.limits {
		g.start()
	}
}

// disturb has events happen, and then all mended.
func (s *schedule) disturb(events []disturbance) {
	for _, e := range events {
		s.happens(e)
		time.Sleep(e.pause)
	}
	s.heal()
}

func (s *schedule) drawLimit() shardlimit.Limit {
	l := shardlimit.Limit{Permits: 100 + s.Int64N(900), Per: time.Duration(300+s.IntN(700)) * time.Millisecond,
		Shards: 1 + s.IntN(6)}
	switch n := s.IntN(9); {
	case n < 4:
		l.Algorithm = shardlimit.SlidingLog
		if s.IntN(4) == 0 {
			l.Lease = (l.Per / time.Duration(1+s.IntN(4))).Truncate(time.Microsecond)
		}
	case n < 6:
		l.Algorithm = shardlimit.SlidingCounter
	default:
		l.Algorithm = limittest.Algorithms[n-4]
		if limittest.Bursty(l.Algorithm) && s.IntN(2) == 0 {
			l.Burst = 20 + s.Int64N(2*l.Permits)
		}
	}
	return l
}

// begin starts the nodes and three processes with their limit.
func (s *schedule) begin(limit shardlimit.Limit) {
	s.Logf("%v, %v, burst %d, lease %v, takeover %t", limit, limit.Algorithm, limit.Burst, limit.Lease, s.takeover)
	fl := s.build()
	change := []func(*shardlimit.Config){limittest.PatientFor(scheduleTimeout),
		limittest.AfterLoss(shardlimit.Quarantine)}
	if s.takeover {
		change = append(change, limittest.Wary)
	}
	s.admin = fl.Client(s.T, change...)
	for range 3 {
		s.clients = append(s.clients, fl.Client(s.T, change...))
	}
	s.main = s.guard("l", limit, func(c *shardlimit.Client) *shardlimit.Limiter {
		return limittest.Limiter(s.T, c, "l", limit)
	})
	for _, l := range s.main.limiters {
		limittest.Settled(s.T, l)
	}
	for _, st := range s.stations {
		st.remember()
	}
	s.Cleanup(func() { // in case the test failed before it looked
		for _, g := range s.limits {
			if g.calls != nil {
				_, _ = g.calls.Stop()
			}
		}
	})
}

// guardKeys has so many keys of a family called, too. It returns the family in each process.
func (s *schedule) guardKeys(n int, limit shardlimit.Limit) (families []*shardlimit.Family) {
	s.Logf("keys: %v, %v", limit, limit.Algorithm)
	for _, c := range s.clients {
		families = append(families, limittest.Family(s.T, c, "f", limit))
	}
	for i := range n {
		key := fmt.Sprint("k", i)
		s.guard("key "+key, limit, func(c *shardlimit.Client) *shardlimit.Limiter {
			return families[slices.Index(s.clients, c)].Limiter(key)
		}).callers = 1
	}
	return families
}

// guardDeleted has a limit called that is deleted now and then.
func (s *schedule) guardDeleted() {
	limit := shardlimit.Limit{Permits: 50, Per: 500 * time.Millisecond, Shards: 2}
	s.guard("d", limit, func(c *shardlimit.Client) *shardlimit.Limiter { return limittest.Limiter(s.T, c, "d", limit) })
}

// happens carries an event out, if it can be now.
func (s *schedule) happens(e disturbance) {
	r := rand.New(rand.NewPCG(e.seed, 0))
	st, l := s.stations[e.on%len(s.stations)], s.main.limiters[e.on%3]
	switch e.what {
	case "break":
		switch {
		case st.cure != nil:
			s.mend(e, st)
		case s.broken() < 2:
			s.breaks(e, st, r)
		}
	case "mend":
		s.mend(e, st)
	case "snapshot":
		st.remember()
	case "process":
		s.disturbHand(e, r)
	case "rebalance":
		s.says(e, "rebalance: %v", l.Rebalance(s.Context()))
	case "delete":
		s.deletes(e)
	case "shards":
		next := s.main.now()
		next.Shards = 1 + r.IntN(6)
		s.says(e, "%d shards: %v", next.Shards, s.main.set(l, next))
	case "permits":
		if s.mild {
			return
		}
		next := s.main.now()
		next.Permits = 50 + r.Int64N(1500)
		s.says(e, "%d permits: %v", next.Permits, s.main.set(l, next))
	}
}

// says logs what an event did.
func (s *schedule) says(e disturbance, format string, a ...any) {
	s.Logf("%2d: "+format, append([]any{e.number}, a...)...)
	s.tally.add(e.what, 1)
}

func (s *schedule) breaks(e disturbance, st *station, r *rand.Rand) {
	for range 20 {
		t := st.troubles[r.IntN(len(st.troubles))]
		if s.mild && t.excess != "" {
			continue
		}
		s.Logf("%2d: %s %s", e.number, st.name, t.name)
		s.tally.add(t.name, 1)
		if st.choose != nil {
			st.choose(r)
		}
		until := s.excuse(st, t)
		if t.skews {
			s.skew()
		}
		cure := t.cause(r)
		if cure == nil {
			until()
			return
		}
		st.cure = func() { cure(); until() }
		return
	}
}

// skew notes that the nodes' clocks differ from now on: a fixed window that moves between two of
// them has its edges elsewhere. Nobody sets the clocks right, so that holds for each later move.
// All of a limit may move at once.
func (s *schedule) skew() {
	for _, g := range s.limits {
		if limit := g.now(); limit.Algorithm == shardlimit.FixedWindow {
			g.excuse(limit.Permits, "a fixed window that moved between nodes whose clocks differ")
		}
	}
}

func (s *schedule) mend(e disturbance, st *station) {
	if st.cure != nil {
		s.Logf("%2d: %s is mended", e.number, st.name)
		st.cure()
		st.cure = nil
	}
}

func (s *schedule) broken() (n int) {
	for _, st := range s.stations {
		if st.cure != nil {
			n++
		}
	}
	return n
}

// deletes has the limit "d" deleted while it is called. Those who know it go on with nothing used:
// a limit more in a window. Until each has read the record, two layouts may serve: another one.
func (s *schedule) deletes(e disturbance) {
	for _, g := range s.limits {
		if g.name == "d" && !s.mild {
			until := g.excuse(2*g.now().Permits, "a limit that was deleted while it was called")
			// As a process that does nothing else: handles end with their limit.
			l, err := s.admin.Open(s.Context(), g.name)
			if err == nil {
				err = l.Delete(s.Context())
			}
			s.says(e, "delete: %v", err)
			until(20*time.Second + 2*g.now().Per)
		}
	}
}

// heal mends all nodes and waits until nothing of a limit is missing.
func (s *schedule) heal() {
	for _, st := range s.stations {
		s.mend(disturbance{number: len(s.plan.events)}, st)
	}
	for _, g := range s.limits {
		var st shardlimit.State
		var err error
		limittest.AwaitWithin(s.T, 6*limittest.TakenOverWithin, "all of "+g.name+" is there", func() bool {
			st, err = g.limiters[s.IntN(3)].Peek(s.Context())
			return err == nil && st.Settled && limittest.SumOn(st, "") == st.Limit.Permits
		}, func() string { return limittest.StateText(st, err) })
		g.found(st.Limit)
	}
}

// scheduleTimeout is how long calls may take.
const scheduleTimeout = time.Second
