package script

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/shardlimit/shardlimit/fairness"
)

// beside runs a trial on the twin and on the script.
func beside(t *testing.T, trial func(t *testing.T, log redisLog)) {
	t.Run("twin", func(t *testing.T) { trial(t, inProcess{&SlidingLog{}}) })
	t.Run("script", func(t *testing.T) {
		m := miniredis.RunT(t)
		trial(t, emulated{server: m, endpoint: NewEndpoint(miniClient(t, m)), ref: ShardKeys("", "t", "l")})
	})
}

const crestsBegin = 1_700_000_000_000_000

// gets takes up to n permits us after the beginning, and returns how many it was granted.
func gets(t *testing.T, log counter, p *Proposal, us, n int64) int64 {
	t.Helper()
	r, err := log.take(crestsBegin+us, &TakeRequest{Proposal: p, Groups: []Group{{Size: 1, Count: n}}})
	if err != nil {
		t.Fatal(err)
	}
	return r.Granted
}

// books books n permits us after the beginning for a later instant.
func books(t *testing.T, log counter, p *Proposal, us, at, n int64) {
	t.Helper()
	delay := duration(at - us)
	r, err := log.reserve(crestsBegin+us,
		&ReserveRequest{Proposal: p, Permits: n, MinDelay: delay, MaxDelay: delay, MaxBooked: MaxPermits})
	if err != nil || r.Granted != n || r.Delay != delay {
		t.Fatalf("%d for %d: %+v, %v", n, at, r, err)
	}
}

// ofTenth proposes so many permits in a tenth of a second.
func ofTenth(t *testing.T, epoch, permits int64) *Proposal {
	t.Helper()
	return terms(t, Terms{Epoch: epoch, Target: permits, Floor: permits, Window: 100 * time.Millisecond, Keep: keep})
}

// crowd takes forty permits one by one: enough entries that they begin to merge.
func crowd(t *testing.T, log redisLog, p *Proposal) {
	t.Helper()
	for i := range int64(40) {
		gets(t, log, p, 1000*i, 1)
	}
}

// Two bookings that share an entry have the date of the later one. What is granted before has room
// beside the earlier one, too.
func TestTakesHaveRoomBesideReservationsThatShareAnEntry(t *testing.T) {
	for name, last := range map[string]bool{"last": true, "behind them another": false} {
		t.Run(name, func(t *testing.T) {
			beside(t, func(t *testing.T, log redisLog) {
				p := ofTenth(t, 1, 1000)
				crowd(t, log, p)
				if got := gets(t, log, p, 50_000, 300); got != 300 {
					t.Fatal(got)
				}
				books(t, log, p, 51_000, 149_900, 600) // the window that ends there holds the 300
				books(t, log, p, 51_000, 150_300, 1)   // that which ends here does not
				if !last {
					books(t, log, p, 51_000, 180_000, 1)
				}
				if got := gets(t, log, p, 60_000, 1000); got != 99 {
					t.Errorf("%d permits, 300 and 600 in one window", got)
				}
			})
		})
	}
}

// Who took half of the share and booked the next half for when that is free again leaves the other
// half to others: what they take right after the first half does not prolong its entry, which one
// window would hold together with the second.
func TestALumpIsNotProlongedBeforeABooking(t *testing.T) {
	beside(t, func(t *testing.T, log redisLog) {
		p := ofTenth(t, 1, 1000)
		crowd(t, log, p)
		if got := gets(t, log, p, 50_000, 500); got != 500 {
			t.Fatal(got)
		}
		books(t, log, p, 50_000, 150_001, 500)
		for i := range int64(4) {
			if got := gets(t, log, p, 50_200+200*i, 100); got != 100 {
				t.Errorf("the call number %d for 100 of 460 permits got %d", i+1, got)
			}
		}
	})
}

// With more entries ahead than are looked at one by one, all of the log counts as if it were in one
// window.
func TestManyReservationsAheadCountAsOneWindow(t *testing.T) {
	for ahead := int64(mostCrests - 1); ahead <= mostCrests+1; ahead++ {
		beside(t, func(t *testing.T, log redisLog) {
			p := ofTenth(t, 1, 100)
			gets(t, log, p, 0, 60)
			for i := range ahead {
				books(t, log, p, 10_000, 101_000+i, 1)
			}
			want := int64(40)
			if ahead > mostCrests {
				want -= ahead
			}
			if got := gets(t, log, p, 20_000, 100); got != want {
				t.Errorf("%d ahead: %d permits, want %d", ahead, got, want)
			}
		})
	}
}

// A reservation behind this window keeps a lowered share above its target until it is due. What is
// granted meanwhile has to do with the target.
func TestALoweredShareAboveItsTargetGrantsNoMoreThanTheTarget(t *testing.T) {
	beside(t, func(t *testing.T, log redisLog) {
		p := ofTenth(t, 1, 20)
		books(t, log, p, 0, 150_000, 10)
		low := ofTenth(t, 2, 4)
		if got := gets(t, log, low, 10_000, 20); got != 4 {
			t.Errorf("%d permits under a limit of 4", got)
		}
	})
}

// Likewise of a fixed window: what is booked in a later window keeps the share up until that window
// is over.
func TestALoweredFixedWindowGrantsNoMoreThanTheTarget(t *testing.T) {
	m := miniredis.RunT(t)
	for name, shard := range map[string]counter{
		"twin": local{NewTwin(AlgorithmFixedWindow)},
		"script": emulated{server: m, endpoint: NewEndpoint(miniClient(t, m)),
			ref: AlgorithmFixedWindow.Keys("", "t", "l")},
	} {
		t.Run(name, func(t *testing.T) {
			limit := Terms{Epoch: 1, Target: 20, Floor: 20, Window: 100 * time.Millisecond, Keep: keep,
				Algorithm: AlgorithmFixedWindow}
			p := terms(t, limit)
			books(t, shard, p, 0, 250_000, 10)
			limit.Epoch, limit.Target, limit.Floor = 2, 4, 4
			low := terms(t, limit)
			for us, want := range []int64{4, 4, 0, 4} {
				if got := gets(t, shard, low, int64(us)*100_000+10_000, 20); got != want {
					t.Errorf("window %d: %d permits under a limit of 4, want %d", us, got, want)
				}
			}
		})
	}
}

// Who may not book yet, because too much is booked ahead, is told when there may be room, and wants
// its permits until then.
func TestWhoFindsTooMuchBookedIsToldWhenToComeBack(t *testing.T) {
	beside(t, func(t *testing.T, log redisLog) {
		p := ofTenth(t, 1, 1000)
		for i, count := range []int64{1000, 1} { // the second is refused
			if _, err := log.take(crestsBegin+int64(i), asking(p, i, count)); err != nil {
				t.Fatal(err)
			}
		}
		var last ReserveReply
		for _, number := range []int{2, 3, 4, 4} { // a name that came once has nothing in its account
			r := &ReserveRequest{Proposal: p, Permits: 1000, MaxDelay: time.Second, MaxBooked: 2000,
				Caller: caller(number)}
			r.Caller.Waiting = 1000
			reply, err := log.reserve(crestsBegin+1000, r)
			if err != nil {
				t.Fatal(err)
			}
			last = reply
		}
		if !last.Full || last.Again < 95*time.Millisecond || last.Again > 105*time.Millisecond {
			t.Fatalf("the last: %+v, want it to come back in 100 ms, when only 1000 are booked", last)
		}
		_, _, text := log.stored()
		ledger, err := fairness.ParseLedger(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range ledger.Standings(fairness.Term{Now: crestsBegin + 115_000, Window: 100_000, Share: 1000}) {
			if s.ID == caller(4).ID && s.Demand < 1000*1000 {
				t.Errorf("just after that it is taken to want %d thousandths of a permit", s.Demand)
			} else if s.ID == caller(4).ID {
				return
			}
		}
		t.Errorf("it is not in the ledger: %q", text)
	})
}
