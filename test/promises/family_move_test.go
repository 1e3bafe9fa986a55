package promises

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/extent"
	"github.com/shardlimit/shardlimit/internal/history"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// A family's limit may be changed at any time, to another algorithm too: what is granted before and
// after is together no more than the greater limit.
func TestSetLimitOfAFamilyIsNeverOver(t *testing.T) {
	counter := shardlimit.Limit{Permits: 10, Per: time.Hour, Algorithm: shardlimit.SlidingCounter}
	for _, c := range [][2]shardlimit.Limit{{shardlimit.PerHour(95), shardlimit.PerHour(97)},
		{shardlimit.PerHour(97), shardlimit.PerHour(95)}, {shardlimit.PerHour(8), shardlimit.PerHour(5)},
		{shardlimit.PerHour(5), shardlimit.PerHour(8)}, {shardlimit.PerHour(10), counter}} {
		limittest.InBubble(t, 3, func(t *testing.T, f limittest.Fleet) {
			users, before, after := f.Family(t, c[0]), c[0].Permits, c[1].Permits
			ann := users.Limiter("ann")
			first := limittest.Exhaust(t, ann, 2*before)
			limittest.Must(t, users.SetLimit(t.Context(), c[1]))
			if got := first + limittest.Exhaust(t, ann, 2*after); first != before || got != max(before, after) {
				t.Errorf("%d and then %d permits in one window, want %d together", first, got-first, max(before, after))
			}
		})
	}
}

// A node is added, another drained, and the last renamed while three processes use thirty keys and
// learn of it at different times.
func TestKeysOfAFamilyMoveUnderLoad(t *testing.T) { limittest.InBubble(t, 5, moveUnderLoad) }

func moveUnderLoad(t *testing.T, f limittest.Fleet) {
	limit := shardlimit.Limit{Permits: 6, Per: 10 * time.Second}
	clients := make([]*shardlimit.Client, 3)
	families := make([]*shardlimit.Family, 3)
	for i := range clients {
		clients[i] = f.With(f.Nodes[:2]...).Client(t)
		families[i] = limittest.Family(t, clients[i], "users", limit)
	}
	demands := make([]*limittest.Demand, extent.Fewer(30))
	for k := range demands {
		var limiters []*shardlimit.Limiter
		for _, users := range families {
			limiters = append(limiters, users.Limiter(fmt.Sprint("user ", k)))
		}
		pause := 700 * time.Millisecond
		if k%2 == 0 {
			pause = 13 * time.Second // longer than a window
		}
		demands[k] = limittest.NewDemand(t, pause, limiters...)
	}
	time.Sleep(21 * time.Second)
	everywhere := func(nodes ...shardlimit.Node) {
		f.Restart(t, clients, nodes, func(i int, c *shardlimit.Client) {
			families[i] = limittest.Family(t, c, "users", limit)
			for k, d := range demands {
				d.Hand(i, families[i].Limiter(fmt.Sprint("user ", k)))
			}
			time.Sleep(time.Second + time.Duration(i)*3*time.Second)
		})
	}
	var quiet time.Time
	rebalance := func(want ...string) {
		limittest.Must(t, clients[1].Rebalance(t.Context()))
		time.Sleep(45 * time.Second)
		if got := limittest.HomesOfKeys(t, families[0]); !slices.Equal(got, want) {
			t.Errorf("keys are on %v, want %v", got, want)
		}
		quiet = time.Now()
	}
	everywhere(f.Nodes[:3]...)
	rebalance("n0", "n1", "n2")
	everywhere(limittest.Draining(f.Nodes[0]), f.Nodes[1], f.Nodes[2])
	rebalance("n1", "n2")
	everywhere(f.Nodes[1:4]...)
	limittest.Must(t, clients[0].Rebalance(t.Context())) // and at once again, over another node
	time.Sleep(2 * time.Second)
	everywhere(f.Nodes[1:]...)
	rebalance("n1", "n2", "n3", "n4")
	time.Sleep(3 * limit.Per)
	for k, d := range demands {
		ops := d.Stop()
		limittest.KeepsTo(t, limit, ops)
		if late := history.Total(limittest.Since(int64(quiet.Sub(d.Begun)), ops)); late < 2 {
			t.Errorf("key %d had %d permits in three windows after the last move", k, late)
		}
	}
}

// While the node that a key is to leave cannot be asked, nobody knows what is in use there: the
// outage policy answers. When it cannot matter any more, the key is served where it is to be.
func TestAKeyWhoseOldHomeIsAwayIsDegraded(t *testing.T) {
	limittest.InBubble(t, 3, func(t *testing.T, f limittest.Fleet) {
		users := f.With(f.Nodes[:2]...).Family(t, shardlimit.PerMinute(10))
		have := func(users *shardlimit.Family, n int) {
			for k := range 30 {
				hasLeft(t, users.Limiter(fmt.Sprint("user ", k)), n)
			}
		}
		have(users, 10)
		mover := f.With(limittest.Drained(f.Nodes, func(i int) bool { return i == 0 })...).Client(t)
		limittest.Must(t, limittest.Family(t, mover, "users", shardlimit.PerMinute(10)).Rebalance(t.Context()))
		// A process that cannot ask the node that is left.
		rest := f.With(f.Nodes[1:]...).Family(t, shardlimit.PerMinute(1))
		moved, served := 0, 0
		for k := range 30 {
			switch d, err := rest.Limiter(fmt.Sprint("user ", k)).Allow(t.Context()); {
			case errors.Is(err, shardlimit.ErrUnavailable):
				moved++
			case err != nil || d.Allowed:
				t.Errorf("key %d: %+v, %v", k, d, err)
			default:
				served++
			}
		}
		if moved == 0 || served == 0 {
			t.Errorf("%d keys by the outage policy, %d otherwise", moved, served)
		}
		time.Sleep(4 * time.Minute)
		for range 3 { // the record is looked at in the background
			_, _ = rest.Limiter("another").Allow(t.Context())
			time.Sleep(time.Minute)
		}
		have(rest, 10)
	})
}

// The record remembers where keys were for as long as something may be held there, and no longer
// than it takes to look.
func TestTheRecordOfAFamilyForgetsInTime(t *testing.T) {
	limittest.InBubble(t, 3, func(t *testing.T, f limittest.Fleet) {
		limit := shardlimit.Limit{Permits: 10, Per: 10 * time.Second}
		f.With(f.Nodes[:2]...).Family(t, limit)
		users := f.Family(t, limit)
		epoch := func() int64 { return limittest.Peek(t, users.Limiter("ann")).Epoch }
		during := func(d time.Duration) {
			for range d / time.Second {
				limittest.MustGet(t, users.Limiter("ann"), 1)
				time.Sleep(time.Second)
			}
		}
		during(20 * time.Second)
		first := epoch()
		limittest.Must(t, users.Rebalance(t.Context()))
		moved := epoch()
		if during(24 * time.Second); epoch() != moved || moved <= first {
			t.Errorf("epoch %d after %d and %d: the record has forgotten where keys were", epoch(), moved, first)
		}
		during(40 * time.Second)
		forgot := epoch()
		if forgot <= moved {
			t.Errorf("epoch %d after %d: the record has not forgotten where keys were", forgot, moved)
		}
		if err := users.Rebalance(t.Context()); err != nil || epoch() != forgot {
			t.Errorf("epoch %d, %v: there was nothing to do", epoch(), err)
		}
	})
}

// Callers who wait for a key hear that its family has another limit, however long the window is: at
// once in the process that changes it, and soon in another one.
func TestWaitersOfKeysHearOfAChange(t *testing.T) {
	ten := shardlimit.PerDay(10)
	for name, c := range map[string]struct {
		to    shardlimit.Limit
		n     int64 // that the caller wants
		other bool  // process changes it
		most  time.Duration
	}{
		"raised":        {shardlimit.PerDay(100), 1, false, time.Second},
		"raised, many":  {shardlimit.PerDay(100), 3, false, time.Second},
		"off":           {in(shardlimit.Off, ten), 1, false, time.Second},
		"off elsewhere": {in(shardlimit.Off, ten), 1, true, 5 * time.Second},
		"raised there":  {shardlimit.PerDay(100), 1, true, 5 * time.Second},
	} {
		limittest.RunInBubble(t, name, 1, func(t *testing.T, f limittest.Fleet) {
			fam, by := limittest.Family(t, f.Client(t), "f", ten), limittest.Family(t, f.Client(t), "f", ten)
			if !c.other {
				by = fam
			}
			mustDecide(t, fam.Limiter("k"), 10, true, false)
			ctx, cancel := context.WithCancel(t.Context()) // a deadline would end the wait at once
			time.AfterFunc(time.Minute, cancel)
			waited := make(chan error)
			go func() { waited <- fam.Limiter("k").WaitN(ctx, c.n) }()
			synctest.Wait()
			began := time.Now()
			limittest.Must(t, by.SetLimit(t.Context(), c.to))
			if err := <-waited; err != nil || time.Since(began) > c.most {
				t.Errorf("%v after %v", err, time.Since(began))
			}
		})
	}
}
