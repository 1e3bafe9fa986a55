package promises

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/history"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/limittest/redissim"
	"github.com/shardlimit/shardlimit/internal/race"
)

// bucketOf is a token bucket of so many permits a minute.
func bucketOf(permits, burst int64, shards int) shardlimit.Limit {
	return shardlimit.Limit{Permits: permits, Per: time.Minute, Algorithm: shardlimit.TokenBucket, Burst: burst,
		Shards: shards}
}

// TestWhatIsUnusedSurvivesAChange: a change of the limit takes nothing out of a token bucket that
// the new burst has room for, and adds nothing. One in place of another algorithm begins empty.
func TestWhatIsUnusedSurvivesAChange(t *testing.T) {
	log := shardlimit.Limit{Permits: 1000, Per: time.Minute, Shards: 1}
	for name, c := range map[string]struct {
		from, to   shardlimit.Limit
		used, want int64
	}{
		"raised, never used":                  {bucketOf(1000, 0, 1), bucketOf(2000, 0, 1), 0, 2000},
		"raised, never used, on four":         {bucketOf(1000, 0, 4), bucketOf(2000, 0, 4), 0, 2000},
		"lowered, never used":                 {bucketOf(1000, 0, 1), bucketOf(500, 0, 1), 0, 500},
		"one used, raised":                    {bucketOf(1000, 0, 1), bucketOf(2000, 0, 1), 1, 999},
		"one used, twice the rate":            {bucketOf(1000, 1000, 1), bucketOf(2000, 1000, 1), 1, 999},
		"one used, ten times the rate":        {bucketOf(1000, 1000, 1), bucketOf(10000, 1000, 1), 1, 999},
		"one used, a tenth of the rate":       {bucketOf(1000, 1000, 1), bucketOf(100, 1000, 1), 1, 999},
		"one used, the burst lowered":         {bucketOf(1000, 1000, 1), bucketOf(1000, 600, 1), 1, 600},
		"half of them used, on four, lowered": {bucketOf(1000, 0, 4), bucketOf(500, 0, 4), 500, 250},
		"all used, raised":                    {bucketOf(1000, 0, 1), bucketOf(2000, 0, 1), 1000, 0},
		"from a log, never used":              {log, bucketOf(1000, 0, 1), 0, 0},
		"from a log, some used":               {log, bucketOf(1000, 0, 1), 300, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := limittest.Limiter(t, limittest.Bubbled(t, 4).Client(t), "l", c.from)
				if c.used > 0 {
					limittest.MustGet(t, l, c.used)
				}
				limittest.Must(t, l.SetLimit(t.Context(), c.to))
				if st := limittest.Peek(t, l); st.Remaining != c.want {
					t.Errorf("%d are there, want %d: %+v", st.Remaining, c.want, st)
				}
			})
		})
	}
}

// TestACancelAfterAChangeGivesBackWhatWasGained: what a bucket gained while something was reserved
// is there after the limit was changed and the reservation cancelled.
func TestACancelAfterAChangeGivesBackWhatWasGained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := shardlimit.Limit{Permits: 10, Per: time.Second, Algorithm: shardlimit.TokenBucket, Burst: 10,
			Shards: 1}
		l := limittest.Limiter(t, limittest.Bubbled(t, 1).Client(t), "l", limit)
		limittest.MustGet(t, l, 10)
		booked, err := l.Reserve(t.Context(), 10) // due in a second
		if err != nil {
			t.Fatal(err)
		}
		for _, permits := range []int64{30, 31} {
			time.Sleep(300 * time.Millisecond) // of the bubble's time
			limit.Permits = permits
			limittest.Must(t, l.SetLimit(t.Context(), limit))
		}
		limittest.Must(t, booked.Cancel(t.Context()))
		if st := limittest.Peek(t, l); st.Remaining != 10 { // 3 and 9 were gained
			t.Errorf("%d are there: %+v", st.Remaining, st)
		}
	})
}

// The windows of a FixedWindow begin at multiples of its length on the clock, on every node at the
// same time.
func TestFixedWindowsEndAtTheClocksEdgeOnEveryNode(t *testing.T) {
	const window = 31 * 24 * time.Hour
	f, set := limittest.Frozen(t, 4)
	now := time.Unix(1_800_000_000, 0)
	set(now)
	begun := time.Now()
	l := limittest.Limiter(t, f.Client(t), "l",
		shardlimit.Limit{Permits: 80, Per: window, Algorithm: shardlimit.FixedWindow, Shards: 16})
	limittest.MustGet(t, l, 80)
	d := denial(t, l, 1)
	edge := now.Add(window - time.Duration(now.UnixNano()%int64(window)))
	// The first of the shards that has permits again, and the last that is free again.
	for what, in := range map[string]time.Duration{"RetryAfter": d.RetryAfter, "ResetAfter": d.ResetAfter} {
		if early := edge.Sub(now.Add(in)); early < 0 || early > time.Since(begun) {
			t.Errorf("%s tells of %s before the edge", what, early)
		}
	}
}

// A fixed window that moves from node to node sees twice its permits across an edge, as one that
// stays; where the nodes' clocks differ, and so their edges, the share that moved once more.
func TestAFixedWindowThatMovesBetweenClocks(t *testing.T) {
	for _, c := range []struct {
		apart time.Duration
		most  int64 // shares in one window's length
	}{{0, 2}, {100 * time.Millisecond, 3}} {
		t.Run(c.apart.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				race.OneProcessor(t)
				const permits = 35
				got := history.Busiest(time.Second, movedAround(t, permits, c.apart)).Permits
				if got > c.most*permits || got < permits {
					t.Errorf("%d permits in a window, want at most %d", got, c.most*permits)
				}
			})
		})
	}
}

// movedAround has a limit of permits a second used while it moves over three nodes whose clocks are
// so far apart.
func movedAround(t *testing.T, permits int64, apart time.Duration) (ops []history.Op) {
	f := limittest.Fleet{Prefix: "b:", Punctual: true}
	for i := range 3 {
		s := redissim.NewServer(func() time.Time { return time.Now().Add(apart * time.Duration(i)) })
		go s.Serve()
		defer s.Close()
		link := redissim.NewLink(s, func([]string) redissim.Fate {
			return redissim.Fate{There: time.Millisecond, Back: time.Millisecond}
		}, func() {})
		f.Nodes = append(f.Nodes, shardlimit.Node{Name: fmt.Sprint("n", i), Client: link})
	}
	limit := shardlimit.Limit{Permits: permits, Per: time.Second, Shards: 1, Algorithm: shardlimit.FixedWindow}
	l := limittest.Limiter(t, f.Client(t), "l", limit)
	limittest.Settled(t, l)
	var movers []*shardlimit.Limiter // each to another node
	for to := range f.Nodes {
		movers = append(movers,
			limittest.Limiter(t, f.With(limittest.Drained(f.Nodes, func(i int) bool { return i != to })...).Client(t),
				"l", limit))
	}
	rng := rand.New(rand.NewPCG(1, 0))
	begun, moved := time.Now(), 0
	for next := time.Duration(0); moved < 30; {
		start := time.Since(begun)
		d, err := l.AllowUpTo(t.Context(), permits)
		if err != nil {
			t.Fatal(err)
		}
		ops = append(ops, history.Op{Start: int64(start), End: int64(time.Since(begun)), Permits: d.Granted})
		time.Sleep(time.Duration(rng.IntN(2))*400*time.Millisecond + 10*time.Millisecond)
		if time.Since(begun) < next {
			continue
		}
		next = time.Since(begun) + 3*time.Second + time.Duration(rng.IntN(1000))*time.Millisecond
		limittest.Must(t, movers[moved%3].Rebalance(t.Context()))
		moved++
	}
	return ops
}

// TestARaiseIsFeltByWhoeverComesNext: one permit a minute is taken, then the limit is raised, or
// its window becomes shorter. Who waits then has the next permits at the new rate, whatever the
// algorithm.
func TestARaiseIsFeltByWhoeverComesNext(t *testing.T) {
	for _, a := range limittest.Algorithms {
		for name, to := range map[string]shardlimit.Limit{
			"raised":  {Permits: 100, Per: time.Minute, Algorithm: a, Shards: 1},
			"shorter": {Permits: 1, Per: 600 * time.Millisecond, Algorithm: a, Shards: 1},
		} {
			t.Run(fmt.Sprint(a, " ", name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := limittest.Limiter(t, limittest.Bubbled(t, 1).Client(t), "l",
						shardlimit.Limit{Permits: 1, Per: time.Minute,
							Algorithm: a, Shards: 1})
					limittest.MustGet(t, l, 1)
					time.Sleep(time.Second) // of the bubble's time
					limittest.Must(t, l.SetLimit(t.Context(), to))
					begun := time.Now()
					for range 3 {
						limittest.Must(t, l.Wait(t.Context()))
					}
					most := 1801 * time.Millisecond  // nobody else waits: each comes when it is due
					if a == shardlimit.LeakyBucket { // the first is due
						most = 1201 * time.Millisecond
					}
					if took := time.Since(begun); took > most {
						t.Errorf("three permits took %s", took)
					}
				})
			})
		}
	}
}
