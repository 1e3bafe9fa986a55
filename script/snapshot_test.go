package script

import (
	"cmp"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// restorable is a shard that can be put back to what it was: its twin is.
type restorable struct {
	*twin
	t       tester
	now     int64
	burst   int64
	granted []TakeReply
}

func newRestorable(t tester, a Algorithm) *restorable {
	return &restorable{twin: newTwin(a), t: t, now: epoch0}
}

func (r *restorable) proposal(offer Terms) *Proposal {
	offer.Algorithm, offer.Keep, offer.Window = r.algorithm, keep, cmp.Or(offer.Window, time.Second)
	if offer.Target > 0 {
		offer.Burst = r.burst
	}
	return terms(r.t, offer)
}

// takes asks for so many permits, one by one.
func (r *restorable) takes(terms Terms, n int64) TakeReply {
	request := &TakeRequest{Proposal: r.proposal(terms)}
	if n > 0 {
		request.Groups = []Group{{Size: 1, Count: n}}
	}
	reply := r.Take(r.now, request)
	r.granted = append(r.granted, reply)
	return reply
}

func (r *restorable) books(terms Terms, n int64) {
	book := &ReserveRequest{Proposal: r.proposal(terms), Permits: n, MaxDelay: time.Minute}
	r.granted = append(r.granted, r.Reserve(r.now, book).TakeReply)
}

// empties waits until a layout that leaves the shard nothing has all of its share.
func (r *restorable) empties(terms Terms) {
	for range 100_000 {
		reply := r.takes(terms, 0)
		if reply.Share == 0 {
			return
		}
		if reply.Next <= 0 {
			reply.Next = 5 * time.Millisecond
		}
		r.now += int64(min(reply.Next, 50*time.Millisecond) / time.Microsecond)
	}
	r.t.Fatal("it keeps its share for ever")
}

// TestAnOldSnapshotBringsNoShareBack: what a state holds beyond what the layout before left to the
// shard was given to others meanwhile. What it holds in use, booked, owed or queued has left the
// window by the time that layout was settled, so the share falls to that at once. Only a floor
// raises it.
func TestAnOldSnapshotBringsNoShareBack(t *testing.T) {
	t.Parallel()
	overPacked(t, func(t *testing.T, a Algorithm) {
		rapid.Check(t, func(t *rapid.T) { bringsNoShareBack(t, a) })
	})
}

func bringsNoShareBack(t *rapid.T, a Algorithm) {
	r := newRestorable(t, a)
	r.burst = rapid.SampledFrom([]int64{0, 5, 30}).Draw(t, "burst")
	first := Terms{Epoch: 1, Target: 10, Floor: 10}
	r.takes(first, 0)
	walk := func(most int) {
		for range rapid.IntRange(0, most).Draw(t, "calls") {
			if rapid.Bool().Draw(t, "ahead") {
				r.books(first, rapid.Int64Range(1, 5).Draw(t, "booked"))
			} else {
				r.takes(first, rapid.Int64Range(1, 12).Draw(t, "taken"))
			}
			r.now += rapid.Int64Range(0, 300_000).Draw(t, "pause")
		}
	}
	walk(8)
	image := r.clone()
	walk(4)
	window := rapid.SampledFrom([]time.Duration{time.Second, 3 * time.Second}).Draw(t, "window")
	r.empties(Terms{Epoch: 2, Retire: rapid.Bool().Draw(t, "retire"), Window: window})
	r.twin = image
	held := rapid.Int64Range(0, 3).Draw(t, "held")
	third := Terms{Epoch: 3, Target: 8, Held: held, HeldKnown: true,
		Window: rapid.SampledFrom([]time.Duration{time.Second, window}).Draw(t, "last window")}
	if reply := r.takes(third, 0); reply.Share != held || reply.Start != held {
		t.Errorf("adopted %+v", reply)
	}
	if reply := r.takes(third, 8); held == 0 && reply.Granted > 0 {
		t.Errorf("%d granted before the share was raised", reply.Granted)
	}
	third.Floor = 8
	if reply := r.takes(third, 0); reply.Share != 8 {
		t.Errorf("raised to %d", reply.Share)
	}
}

// TestAShareThatNobodySawFallDoesNotComeBack: a layout left the shard less than it had in use. When
// that was over, nobody asked the shard, as no key is driven. The next layout, which does not know
// what it holds, finds that it has no more than that.
func TestAShareThatNobodySawFallDoesNotComeBack(t *testing.T) {
	for _, a := range allAlgorithms {
		for _, left := range []int64{0, 2} {
			for _, retire := range []bool{false, true} {
				r := newRestorable(t, a)
				first := Terms{Epoch: 1, Target: 10, Floor: 10}
				r.takes(first, 7)
				r.books(first, 5)
				r.now += 100_000
				second := Terms{Epoch: 2, Target: left, Retire: retire && left == 0}
				if reply := r.takes(second, 0); reply.Share <= left && a != AlgorithmTokenBucket {
					t.Fatalf("%v: nothing was in use: %+v", a, reply)
				}
				r.now += 20_000_000
				reply := r.takes(Terms{Epoch: 3, Target: 8}, 8)
				again := r.takes(Terms{Epoch: 3, Target: 8}, 0)
				if reply.Share != left || again.Start != left || left == 0 && reply.Granted > 0 {
					t.Errorf("%v: %d were left, adopted %+v, start %d", a, left, reply, again.Start)
				}
			}
		}
	}
}
