package script

import (
	"testing"
	"time"
)

// rising is a shard of 110 permits that is to have 200. Two participants contend for it, and one of
// them is entitled to more than the shard has so far: its weight is nine times the other's.
type rising struct {
	t        *testing.T
	shard    counter
	proposal *Proposal
	now      int64
}

func newRising(t *testing.T, shard counter, a Algorithm) *rising {
	terms := Terms{Epoch: 1, Target: 200, Floor: 110, Window: time.Second, Algorithm: a}
	if a == AlgorithmTokenBucket {
		terms.Burst = 200
	}
	p, err := terms.Proposal()
	if err != nil {
		t.Fatal(err)
	}
	r := &rising{t: t, shard: shard, proposal: p, now: 1_700_000_000_000_000}
	for range 600 { // on a server that is not held up, or what it keeps expires
		for who := range 2 {
			r.take(who, 5)
		}
		r.now += 5000
	}
	r.now += 220_000 // credit comes, and claims do not fade yet
	r.take(1, 1)
	return r
}

func (r *rising) caller(who int) Caller {
	s := caller(who)
	s.Weight, s.Waiting = []int64{9000, 1000}[who], 100
	return s
}

func (r *rising) take(who int, count int64) TakeReply {
	r.t.Helper()
	req := &TakeRequest{Proposal: r.proposal, Groups: []Group{{Size: 1, Count: count}},
		Callers: []Caller{r.caller(who)}}
	reply, err := r.shard.take(r.now, req)
	if err != nil {
		r.t.Fatal(err)
	}
	return reply
}

// TestARefundWhileAShareRisesCutsNoCredit: who gives permits back can take as many as before it had
// them.
func TestARefundWhileAShareRisesCutsNoCredit(t *testing.T) {
	everywhere(t, func(t *testing.T, shard counter, a Algorithm) {
		r := newRising(t, shard, a)
		taken := r.take(0, 3)
		if taken.Granted != 3 {
			t.Fatalf("%d granted", taken.Granted)
		}
		back, err := shard.settle(r.now, SettleRequest{Back: 3, At: taken.At, Caller: r.caller(0)})
		if err != nil || back.Back != 3 {
			t.Fatalf("%+v %v", back, err)
		}
		if got := r.take(0, 25).Granted; got < 20 {
			t.Errorf("%d of 25 granted", got)
		}
	})
}

// TestABookingWhileAShareRisesCutsNoCredit: what is left of a participant's credit behind a booking
// can be taken.
func TestABookingWhileAShareRisesCutsNoCredit(t *testing.T) {
	everywhere(t, func(t *testing.T, shard counter, a Algorithm) {
		r := newRising(t, shard, a)
		booked, err := shard.reserve(r.now, &ReserveRequest{
			Proposal: r.proposal, Permits: 10, MaxDelay: time.Second, Caller: r.caller(0),
		})
		if err != nil || booked.Granted != 10 {
			t.Fatalf("%+v %v", booked, err)
		}
		if got := r.take(0, 15).Granted; got < 10 {
			t.Errorf("%d of 15 granted", got)
		}
	})
}
