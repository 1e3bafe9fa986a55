package shardlimit_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/history"
)

var (
	schedules     = flag.Int("schedules", 1, "how many random schedules of faults TestRandomSchedules plays")
	schedulesSeed = flag.Uint64("schedules.seed", 1, "the seed of the first of them; the next ones count on")
)

// Four real servers that break in random ways, one or two at a time, while three processes call as
// hard as they can and change where the limit lies: no window is over, and in the end nothing is
// missing.
func TestRandomSchedules(t *testing.T) {
	for i := range *schedules {
		seed := *schedulesSeed + uint64(i)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			(&schedule{T: t, Rand: rand.New(rand.NewPCG(seed, 0))}).play()
		})
	}
}

// schedule is one of them under way.
type schedule struct {
	*testing.T
	*rand.Rand
	limit    shardlimit.Limit
	posts    []*proxiedNode
	clients  []*shardlimit.Client
	limiters []*shardlimit.Limiter
	cures    [4]func() // of the nodes that are broken
}

func (s *schedule) play() {
	s.begin(shardlimit.Limit{Permits: 100 + s.Int64N(900), Per: time.Duration(300+s.IntN(700)) * time.Millisecond,
		Shards:    1 + s.IntN(6),
		Algorithm: []shardlimit.Algorithm{shardlimit.SlidingLog, shardlimit.SlidingCounter}[s.IntN(2)],
		Failover:  s.IntN(4) > 0})
	calls := newTraffic(s.T)
	calls.dying = true
	calls.start(3, s.limiters...)
	s.disturb(6 + s.IntN(8))
	s.heal()
	ops, err := calls.stop()
	if err != nil && !errors.Is(err, shardlimit.ErrUnavailable) {
		s.Error(err)
	}
	s.Logf("%d calls, %d permits", calls.calls.Load(), calls.admitted.Load())
	if worst, ok := history.Check(s.limit.Per, s.limit.Permits, ops); !ok {
		s.Errorf("over: %v", worst)
	}
}

// begin starts the nodes and the processes with their limit.
func (s *schedule) begin(limit shardlimit.Limit) {
	s.limit = limit
	s.Logf("%v, %v", limit, limit.Algorithm)
	var fl fleet
	fl, s.posts = proxied(s.T, 4)
	for range 3 {
		c := fl.client(s.T, patientFor(time.Second), wary, afterLoss(shardlimit.Quarantine))
		s.clients = append(s.clients, c)
		s.limiters = append(s.limiters, limiter(s.T, c, "l", limit))
	}
	for _, l := range s.limiters {
		settled(s.T, l)
	}
}

func (s *schedule) disturb(events int) {
	for range events {
		s.event()
		time.Sleep(time.Duration(s.IntN(2500)) * time.Millisecond)
	}
}

// heal mends all nodes and waits until nothing of the limit is missing.
func (s *schedule) heal() {
	for i := range s.cures {
		s.cure(i)
	}
	var st shardlimit.State
	defer func() {
		if s.Failed() {
			s.Logf("at last: %+v", st)
		}
	}()
	within(s.T, 6*takenOverWithin, "the whole limit is there", func() bool {
		var err error
		st, err = s.limiters[s.IntN(3)].Peek(s.Context())
		return err == nil && st.Settled && sumOn(st, "") == s.limit.Permits
	})
}

// event breaks a node, or mends one, or has a process move the limit.
func (s *schedule) event() {
	i, l := s.IntN(len(s.posts)), s.limiters[s.IntN(len(s.limiters))]
	switch broken := s.broken(); {
	case s.cures[i] == nil && s.IntN(8) == 0:
		s.Logf("%s forgets its scripts", s.posts[i].name)
		s.posts[i].do(s.T, "SCRIPT", "FLUSH")
	case s.cures[i] != nil:
		s.cure(i)
	case s.IntN(5) == 0:
		next := s.limit
		next.Shards = 1 + s.IntN(6)
		s.Logf("%d shards: %v", next.Shards, l.SetLimit(s.Context(), next))
	case s.IntN(5) == 0:
		s.Logf("rebalance: %v", l.Rebalance(s.Context()))
	case broken < 2:
		s.fail(i)
	}
}

func (s *schedule) fail(i int) {
	p := s.posts[i]
	n := s.IntN(len(failures) + len(refusals))
	if n < len(failures) {
		f := failures[n]
		s.Logf("%s %s", p.name, f.name)
		f.cause(p)
		s.cures[i] = func() { f.cure(p) }
		return
	}
	r := refusals[n-len(failures)]
	s.Logf("%s %s", p.name, r.name)
	p.do(s.T, r.cause...)
	s.cures[i] = func() { p.do(s.T, r.cure...) }
}

// refusals are what an operator may do to a server so that it answers, but does nothing.
var refusals = []struct {
	name        string
	cause, cure []string
}{
	{"has no memory left", []string{"CONFIG", "SET", "maxmemory", "1"}, []string{"CONFIG", "SET", "maxmemory", "0"}},
	{"is read-only", []string{"REPLICAOF", "127.0.0.1", "1"}, []string{"REPLICAOF", "NO", "ONE"}},
	{"forbids scripts", []string{"ACL", "SETUSER", "default", "-@scripting"},
		[]string{"ACL", "SETUSER", "default", "+@scripting"}},
}

func (s *schedule) cure(i int) {
	if cure := s.cures[i]; cure != nil {
		s.Logf("%s is mended", s.posts[i].name)
		cure()
		s.cures[i] = nil
	}
}

func (s *schedule) broken() (n int) {
	for _, cure := range s.cures {
		if cure != nil {
			n++
		}
	}
	return n
}
