package script

import (
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/internal/clock"
)

// A state that does not exist is created only until the deadline, with a share and without, by a
// take and by a reservation alike, under every algorithm. One that is behind is changed only until
// then: it may be that of who was behind, after a loss. Without a share a call that comes late
// would give it an old epoch, and a second one, as late, an old share.
func TestNoShareIsCreatedAfterTheDeadline(t *testing.T) {
	const over, ahead = clock.ServerTime(epoch0 - 1), clock.ServerTime(epoch0 + 60*second)
	for a := range algorithms {
		p := func(epoch, floor int64) *Proposal {
			return terms(t, Terms{Epoch: epoch, Target: 10, Floor: floor, Window: time.Minute, Algorithm: a})
		}
		twin := newTwin(a)
		for _, step := range []struct {
			name     string
			proposal *Proposal
			deadline clock.ServerTime
			status   Status
			granted  int64
		}{
			{"unconfirmed", p(1, 10), Unconfirmed, Absent, 0},
			{"late", p(1, 10), over, Absent, 0},
			{"late, without a share", p(1, 0), over, Absent, 0},
			{"in time", p(1, 10), ahead, Fresh, 1},
			{"late, with a state", p(1, 10), over, OK, 1},
			{"a later epoch, late", p(2, 10), over, Absent, 0},
			{"a later epoch, in time", p(2, 10), ahead, OK, 1},
		} {
			r := ones(step.proposal, 1)
			r.Deadline = step.deadline
			if step.status == Absent {
				book := &ReserveRequest{Proposal: step.proposal, Permits: 1, MaxDelay: time.Minute, Relied: r.Relied}
				if got := twin.Reserve(epoch0, book); got.Status != Absent || got.Granted > 0 {
					t.Errorf("%v, %s, reserved: %+v", a, step.name, got)
				}
			}
			if got := twin.Take(epoch0, r); got.Status != step.status || got.Granted != step.granted ||
				step.status == Absent && (got.Share != 0 || got.Epoch != 0) {
				t.Errorf("%v, %s: %+v", a, step.name, got)
			}
		}
	}
}

// After its fence a call grants, adopts and writes nothing, also where there is a state.
func TestNothingIsDoneAfterTheFence(t *testing.T) {
	for a := range algorithms {
		twin := newTwin(a)
		first := terms(t, Terms{Epoch: 1, Target: 10, Floor: 10, Window: time.Minute, Algorithm: a})
		next := terms(t, Terms{Epoch: 2, Target: 10, Floor: 10, Window: time.Minute, Algorithm: a})
		twin.Take(epoch0, ones(first, 1))
		was, late := twin.head(), ones(next, 1)
		late.Fence = clock.ServerTime(epoch0)
		if got := twin.Take(epoch0+1, late); got.Status != Fenced || got.Granted != 0 || got.At != epoch0+1 {
			t.Errorf("%v: %+v", a, got)
		}
		book := &ReserveRequest{Proposal: next, Permits: 1, MaxDelay: time.Minute, Relied: late.Relied}
		if got := twin.Reserve(epoch0+1, book); got.Status != Fenced || got.Granted != 0 {
			t.Errorf("%v: %+v", a, got)
		}
		if is := twin.head(); is != was {
			t.Errorf("%v: the state was %q, is %q", a, was, is)
		}
		if got := twin.Take(epoch0, late); got.Granted != 1 || got.Epoch != 2 {
			t.Errorf("%v: in time: %+v", a, got)
		}
	}
}
