package majority

import (
	"fmt"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/internal/race"
)

// This file explores, in steps of time, how a node is put out while processes still believe that it
// is in. By the places' clock a tick is 25.25 s. The clocks of processes and of the node are slow:
// they see 25 s pass, so that they are just within the 1 % of drift.
const (
	tick      = 25_250 * time.Millisecond
	slowTick  = 25 * time.Second
	confirmed = 4 * slowTick
	horizon   = 7 // ticks
)

// fencing says what is broken.
type fencing struct {
	noFence      bool // a process asks whatever it believes
	noDeadline   bool // the node ignores the deadline of a call
	sinceAnswer  bool // a belief counts from when the read ended
	deadlineSent bool // a deadline counts from when the call is sent, not from when the node's reply came
	noDrift      bool // nothing is added for drift
}

// user is a process. Times are ticks; each may be as long as it likes between two steps: paused,
// cut off by a partition, or slow.
type user struct {
	reading, readAt int8 // the generation that its read found (0: none yet), and when it began (-1: none)
	belief          Belief
	said            int8  // when the node sent the reply that it waits for or has; -1: none
	heard           int8  // when that came; -1: it has not
	until           int64 // the deadline of a call under way; 0: none
	callGeneration  int64
}

// scene is a state of all. There is one process: what others do, it sees as generations alone.
type scene struct {
	now, outAt int8 // outAt: when the node was put out; -1: it was not
	generation int64
	user       user
}

// memberships are the generations: the node X is in, put out, in again.
func memberships(t testing.TB) []Membership {
	m, err := NewMembership(1, "A", "B", "X")
	all := []Membership{{}, m}
	for _, change := range []func(Membership, string, time.Duration) (Membership, error){
		putOut, Membership.Add} {
		if err == nil {
			m, err = change(m, "X", 0)
		}
		all = append(all, m)
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func own(at int8) time.Duration { return time.Duration(at) * slowTick }

// steps are the scenes that can follow, or an error if the node grants what it may not.
func (f fencing) steps(s scene, generations []Membership) (out []scene, err error) {
	if s.now < horizon && !(race.Enabled && s.now == horizon-1) {
		next := s
		next.now++
		out = append(out, next)
	}
	if int(s.generation) < len(generations)-1 {
		next := s
		if next.generation++; next.generation == 2 {
			next.outAt = s.now
		}
		out = append(out, next)
	}
	add := func(u user) {
		next := s
		next.user = u
		out = append(out, next)
	}
	add(f.read(s.user, s))
	for _, u := range f.ask(s.user, s, generations) {
		add(u)
	}
	if u := s.user; u.until != 0 {
		if f.noDeadline || own(s.now).Microseconds() <= u.until {
			if err := f.granted(u, s); err != nil {
				return nil, err
			}
		}
		u.until, u.callGeneration = 0, 0
		add(u)
	}
	return out, nil
}

// read is what the process can do to confirm a generation.
func (f fencing) read(u user, s scene) user {
	next := u
	switch {
	case u.readAt < 0:
		next.readAt = s.now
	case u.reading == 0:
		next.reading = int8(s.generation)
	default:
		next.belief = Belief{Generation: int64(u.reading), Began: own(u.readAt)}
		if f.sinceAnswer {
			next.belief.Began = own(s.now)
		}
		next.reading, next.readAt = 0, -1
	}
	return next
}

// ask is what it can do to ask the node. What a call carries is worked out before it is sent, and
// the call may be on its way for as long as it likes.
func (f fencing) ask(u user, s scene, generations []Membership) (out []user) {
	if u.said < 0 || u.heard >= 0 { // another reply
		next := u
		next.said, next.heard = s.now, -1
		out = append(out, next)
	}
	if u.said >= 0 && u.heard < 0 {
		next := u
		next.heard = s.now
		out = append(out, next)
	}
	if u.heard < 0 || u.until != 0 || u.belief.Generation == 0 || !generations[u.belief.Generation].Serves("X", 1) {
		return out
	}
	since, said := own(u.heard), own(u.said)
	if f.deadlineSent {
		said = own(s.now) // as if the node had just said it
	}
	left := u.belief.Left(u.belief.Generation, max(since, u.belief.Began), confirmed)
	if u.belief.Left(u.belief.Generation, own(s.now), confirmed) == 0 {
		left = 0
	}
	if f.noFence {
		left = confirmed
	}
	if until := deadline(said.Microseconds(), left); until != 0 {
		next := u
		next.until, next.callGeneration = until, u.belief.Generation
		out = append(out, next)
	}
	return out
}

// granted checks what the node grants now.
func (f fencing) granted(u user, s scene) error {
	after := GivenUp(confirmed, 0)
	if f.noDrift {
		after = confirmed
	}
	if late := time.Duration(s.now-s.outAt) * tick; s.outAt >= 0 && u.callGeneration < 2 && late > after {
		return fmt.Errorf("granted %v after the node was put out", late)
	}
	return nil
}

func (f fencing) explore(t testing.TB) (int, error) {
	first := scene{outAt: -1, generation: 1, user: user{readAt: -1, said: -1, heard: -1}}
	generations := memberships(t)
	seen, todo := map[scene]bool{first: true}, []scene{first}
	for len(todo) > 0 {
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		next, err := f.steps(s, generations)
		if err != nil {
			return len(seen), err
		}
		for _, n := range next {
			if !seen[n] {
				seen[n] = true
				todo = append(todo, n)
			}
		}
	}
	return len(seen), nil
}

// A node grants nothing under a generation that was over for longer than the fence.
func TestANodeThatIsPutOutGrantsNothingAfterTheFence(t *testing.T) {
	states, err := fencing{}.explore(t)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d states", states)
}

func TestABrokenFenceIsNoticed(t *testing.T) {
	for name, f := range map[string]fencing{
		"no fence":                               {noFence: true},
		"a deadline is ignored":                  {noDeadline: true},
		"a belief counts from the answer":        {sinceAnswer: true},
		"a deadline counts from the call":        {deadlineSent: true},
		"nothing is added for the clocks' drift": {noDrift: true},
	} {
		t.Run(name, func(t *testing.T) {
			states, err := f.explore(t)
			if err == nil {
				t.Errorf("nothing is noticed in %d states", states)
			}
			t.Logf("%d states: %v", states, err)
		})
	}
}

// deadline is the time of a node, in microseconds, up to which it may serve a call: what its clock
// said in an earlier reply, and what was left of the belief when that reply was received. So the
// way of the reply makes it earlier, never later. 0: no call may be sent.
func deadline(said int64, left time.Duration) int64 {
	if left < time.Microsecond {
		return 0
	}
	return said + left.Microseconds()
}
