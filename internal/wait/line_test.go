package wait

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/internal/call"
	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/limit"
)

// queueFor returns a queue without a pump: the test serves it by itself.
func queueFor(permits int64, sizes ...int64) (*queue, []*waiter) {
	c := &call.Target{}
	of := limit.Limit{Permits: permits, Per: time.Minute}
	c.Init(&limit.Process{Clock: clock.Clock{Base: time.Now()}}, c, "", "", of)
	q := lineOf(call.NewMember(c, limit.NewParticipant("p", 1)))
	q.pumping, q.poke = true, make(chan struct{}, 1)
	waiters := make([]*waiter, len(sizes))
	for i, n := range sizes {
		waiters[i], _ = q.join(Place{N: n})
	}
	return q, waiters
}

// told returns the places, counted from 0, of those whose waiting has ended with an error, or with
// nil: they have got their permits.
func told(waiters []*waiter, what error) (places []int) {
	for i, w := range waiters {
		select {
		case err := <-w.done:
			if errors.Is(err, what) {
				places = append(places, i)
			}
		default:
		}
	}
	return places
}

// serve grants up to so many permits to what the line asks for next.
func serve(t *testing.T, q *queue, permits int64) (asked int64) {
	t.Helper()
	n, singles, ok := q.head(nil)
	if !ok {
		return 0
	}
	granted := min(n, permits)
	if !singles && granted < n {
		granted = 0 // all or nothing
	}
	q.hand(call.Decision{Answer: call.Answer{Granted: granted, Degraded: true}}, singles)
	return n
}

func TestServiceIsInOrderOfArrival(t *testing.T) {
	q, waiters := queueFor(100, 1, 1, 1, 5, 1, 1)
	for _, step := range []struct {
		permits, asked int64
		served         []int
	}{
		{2, 3, []int{0, 1}},
		{0, 1, nil},
		{9, 1, []int{2}}, // the five behind want theirs together
		{4, 5, nil},      // not enough, and nobody overtakes
		{4, 5, nil},
		{5, 5, []int{3}},
		{9, 2, []int{4, 5}},
		{9, 0, nil},
	} {
		if asked := serve(t, q, step.permits); asked != step.asked {
			t.Errorf("%+v: the line asks for %d", step, asked)
		}
		if got := told(waiters, nil); !slices.Equal(got, step.served) {
			t.Errorf("%+v: served %v", step, got)
		}
	}
	if q.Len() != 0 || q.wanted != 0 {
		t.Errorf("%d wait, %d permits are wanted", q.Len(), q.wanted)
	}
}

func TestLeavingTheLineLosesNobodysPlace(t *testing.T) {
	q, waiters := queueFor(100, 1, 4, 1, 1)
	if !q.leave(waiters[1]) || q.leave(waiters[1]) {
		t.Error("a waiter leaves once")
	}
	if q.Len() != 3 || q.wanted != 3 {
		t.Errorf("%d wait, %d permits are wanted", q.Len(), q.wanted)
	}
	if asked := serve(t, q, 2); asked != 3 {
		t.Errorf("the line asks for %d", asked)
	}
	if got := told(waiters, nil); !slices.Equal(got, []int{0, 2}) {
		t.Errorf("served %v", got)
	}
	if q.leave(waiters[0]) {
		t.Error("left after having been served")
	}
	if late, err := q.join(Place{N: 1}); err != nil || q.line.Back() != late.in {
		t.Errorf("a newcomer is not last: %v", err)
	}
}

func TestNobodyJoinsALineThatIsTooLong(t *testing.T) {
	q, _ := queueFor(10, 10, 10, 10)
	// Three windows must pass.
	for deadline, hopeless := range map[time.Duration]bool{90 * time.Second: true, 4 * time.Minute: false} {
		before := q.Len()
		_, err := q.join(Place{N: 1, Deadline: q.member.Target.Process.Now() + int64(deadline)})
		if errors.Is(err, limit.ErrWaitTooLong) != hopeless || (err == nil) != (q.Len() == before+1) {
			t.Errorf("%s: %v, %d wait", deadline, err, q.Len())
		}
	}
	if _, err := q.join(Place{N: 10}); err != nil {
		t.Errorf("without a deadline: %v", err)
	}
}

func TestADenialTellsWhoWaitsInVain(t *testing.T) {
	in := func(q *queue, d time.Duration) int64 { return q.member.Target.Process.Now() + int64(d) }
	const minute = time.Minute
	q, waiters := queueFor(10, 10, 5, 5, 10)
	for i, deadline := range map[int]time.Duration{0: 3 * minute, 2: 2 * minute, 3: 4*minute + minute/2} {
		waiters[i].Deadline = in(q, deadline)
	}
	q.head(nil)
	q.dismissHopeless(nil, in(q, 90*time.Second)) // then 10, a minute later 10 more, and so on
	if got := told(waiters, limit.ErrWaitTooLong); !slices.Equal(got, []int{2}) {
		t.Errorf("in vain wait %v", got)
	}
	// What the head was told holds for newcomers: 26 permits need two windows more.
	if _, err := q.join(Place{N: 1, Deadline: in(q, 3*minute)}); !errors.Is(err, limit.ErrWaitTooLong) {
		t.Errorf("a newcomer waits in vain: %v", err)
	}
	if _, err := q.join(Place{N: 1, Deadline: in(q, 4*minute)}); err != nil {
		t.Errorf("a newcomer with time enough: %v", err)
	}
	// With another head it holds no more.
	q.leave(waiters[0])
	q.dismissHopeless(nil, in(q, time.Hour))
	if got := told(waiters, limit.ErrWaitTooLong); got != nil {
		t.Errorf("in vain wait %v, says what a head was told that has left", got)
	}
	// A head that waits in vain makes room for the one behind it, who may want less.
	q, waiters = queueFor(10, 10, 1)
	waiters[0].Deadline, waiters[1].Deadline = in(q, minute), in(q, minute)
	q.head(nil)
	q.dismissHopeless(nil, in(q, 2*minute))
	if got := told(waiters, limit.ErrWaitTooLong); !slices.Equal(got, []int{0}) {
		t.Errorf("in vain wait %v", got)
	}
	select {
	case <-q.poke:
	default:
		t.Error("the next one does not ask")
	}
}

// A caller may pass its first look before the client is closed, and come to the line after that.
func TestNobodyWaitsInTheLineOfAClosedClient(t *testing.T) {
	q, _ := queueFor(100)
	q.pumping = false
	q.member.Target.Process.Closed.Store(true)
	for i := range 3 {
		w, err := q.join(Place{N: 1})
		if err != nil {
			t.Fatal(err)
		}
		if len(told([]*waiter{w}, limit.ErrClosed)) == 0 {
			t.Errorf("caller %d waits for ever, or hears something else", i)
		}
	}
}

// Who came before stands in front, whenever it joins the line; a place that is kept holds up those
// behind it, and one that is not ready goes elsewhere.
func TestPlacesAreByArrival(t *testing.T) {
	q, _ := queueFor(100)
	for _, p := range []Place{{N: 1, Came: 5}, {N: 2, Came: 9}, {N: 3, Came: 7}, {N: 4, Came: 5}} {
		if _, err := q.join(p); err != nil {
			t.Fatal(err)
		}
	}
	var order []int64
	for e := q.line.Front(); e != nil; e = e.Next() {
		order = append(order, e.Value.(*waiter).N)
	}
	if !slices.Equal(order, []int64{1, 4, 3, 2}) || !Behind(q.member, 6) || Behind(q.member, 5) {
		t.Errorf("the line is %v, the first came %d", order, q.oldest.Load())
	}
	giveUp := Keep(q.member, 3)
	if n, _, ok := q.head(nil); n != 0 || !ok {
		t.Errorf("%d are asked for past a place that is kept", n)
	}
	giveUp()
	giveUp()
	if n, singles, ok := q.head(nil); n != 1 || !singles || !ok {
		t.Errorf("%d are asked for", n)
	}
	w, err := q.join(Place{N: 1, Came: 1, Ready: func() bool { return false }})
	if err != nil {
		t.Fatal(err)
	}
	q.hand(call.Decision{Answer: call.Answer{Granted: 1, Degraded: true}}, true)
	if err := <-w.done; !errors.Is(err, ErrElsewhere) || q.wanted != 9 || q.oldest.Load() != 5 {
		t.Errorf("%v, %d wanted, the first came %d", err, q.wanted, q.oldest.Load())
	}
}

// A line that has become empty is woken no more, and believes nothing of what comes back meanwhile.
func TestAnEmptyLineEnds(t *testing.T) {
	q, _ := queueFor(5)
	c := q.member.Target
	c.Members.Waits(q)
	q.notBefore = 1
	if _, _, more := q.head(nil); more || q.notBefore != 0 {
		t.Errorf("it goes on: %v, until %d", more, q.notBefore)
	}
	c.Members.Wake(true)
	if q.restarts != 0 {
		t.Error("it is woken")
	}
}
