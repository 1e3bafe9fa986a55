package shardlimit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
)

// upTo is how many of n permits a process gets now.
func upTo(t *testing.T, l *shardlimit.Limiter, n int64) int64 {
	t.Helper()
	d, err := l.AllowUpTo(t.Context(), n)
	if err != nil || d.Degraded {
		t.Fatalf("%+v, %v", d, err)
	}
	return d.Granted
}

// TestEveryAlgorithmIsRemindedOfWhatItGranted: ten minutes after 50 of 60 permits of an hour were
// taken by two processes, the server forgets, twice. One of the processes does nothing.
func TestEveryAlgorithmIsRemindedOfWhatItGranted(t *testing.T) {
	for algorithm, free := range map[shardlimit.Algorithm]int64{
		shardlimit.SlidingLog: 10, shardlimit.SlidingCounter: 10, shardlimit.FixedWindow: 10,
		// these gained a permit a minute
		shardlimit.TokenBucket: 21, shardlimit.LeakyBucket: 21,
	} {
		for _, shards := range []int{1, 3} {
			t.Run(algorithm.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f, servers := bubbledServers(t, 1)
					limit := shardlimit.Limit{Permits: 60, Per: time.Hour, Algorithm: algorithm, Shards: shards}
					idle, busy := limiter(t, f.client(t), "l", limit), limiter(t, f.client(t), "l", limit)
					settled(t, busy)
					if got := upTo(t, idle, 30) + upTo(t, busy, 20); got != 50 {
						t.Fatal(got, "permits")
					}
					time.Sleep(10 * time.Minute)
					for range 2 {
						servers[0].Restart()
						if got := upTo(t, busy, 60); got != 0 {
							t.Errorf("%d permits before anybody could say what is in use", got)
						}
						time.Sleep(31 * time.Second)
					}
					got := upTo(t, busy, 60)
					if got > free || got < free-int64(shards) {
						t.Errorf("%d permits after the loss, want %d", got, free)
					}
					if bursty(algorithm) {
						return
					}
					time.Sleep(time.Hour - 10*time.Minute - 63*time.Second)
					if got := upTo(t, busy, 60); got != 0 {
						t.Errorf("%d permits came back before the window had passed", got)
					}
					time.Sleep(time.Hour/16 + time.Second)
					if got := upTo(t, busy, 60); got < 50 {
						t.Errorf("%d permits came back after a window and a sixteenth", got)
					}
				})
			})
		}
	}
}

// TestAReminderUndoesNoReset: who has called the shard since it was cleared knows. So does who
// cleared it.
func TestAReminderUndoesNoReset(t *testing.T) {
	for _, algorithm := range algorithms {
		t.Run(algorithm.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, servers := bubbledServers(t, 1)
				limit := shardlimit.Limit{Permits: 60, Per: time.Hour, Algorithm: algorithm, Shards: 1}
				a, b := limiter(t, f.client(t), "l", limit), limiter(t, f.client(t), "l", limit)
				upTo(t, a, 30)
				upTo(t, b, 20)
				if err := a.Reset(t.Context()); err != nil {
					t.Fatal(err)
				}
				upTo(t, b, 1)
				servers[0].Flush()
				upTo(t, b, 60)
				time.Sleep(31 * time.Second)
				if got := upTo(t, a, 60); got != 59 {
					t.Errorf("%d permits, want all but the one that was granted since", got)
				}
			})
		})
	}
}

// TestAReminderKnowsWhatIsReservedAndGivenBack: what is reserved is in use from its time on, and
// what was given back is not.
func TestAReminderKnowsWhatIsReservedAndGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, servers := bubbledServers(t, 1)
		limit := shardlimit.Limit{Permits: 10, Per: time.Hour, Shards: 1}
		l := limiter(t, f.client(t), "l", limit)
		d, err := l.AllowN(t.Context(), 4)
		if err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
		takes(t, l, 3)
		if err := l.Refund(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		r, err := l.Reserve(t.Context(), 8) // when the three are free again
		if err != nil || r.Delay() < 58*time.Minute {
			t.Fatal(r, err)
		}
		servers[0].Restart()
		upTo(t, l, 10)
		time.Sleep(31 * time.Second)
		if s := peek(t, l).Shards[0]; s.Used != 11 {
			t.Errorf("%d permits are in use or reserved, want 11: %+v", s.Used, s)
		}
		time.Sleep(r.Delay() + time.Minute)
		if got := upTo(t, l, 10); got != 2 {
			t.Errorf("%d permits beside the eight that were reserved, want 2", got)
		}
	})
}
