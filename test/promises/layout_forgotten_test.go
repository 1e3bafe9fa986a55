package promises

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// A process forgets the shards of a layout with it, however often a limit moves. Shards of an
// algorithm that the limit had before never return.
func TestShardsOfEarlierLayoutsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := limittest.Bubbled(t, 3)
		l := limittest.Limiter(t, f.Client(t), "l", shardlimit.Limit{Permits: 30, Per: time.Second, Shards: 3})
		for i := range 8 {
			next := shardlimit.Limit{Permits: 30, Per: time.Second, Shards: 3,
				Algorithm: []shardlimit.Algorithm{shardlimit.SlidingCounter, shardlimit.SlidingLog,
					shardlimit.TokenBucket}[i%3]}
			if err := l.SetLimit(t.Context(), next); err != nil {
				t.Fatal(err)
			}
			for range 20 {
				_, _ = l.Allow(t.Context())
				time.Sleep(500 * time.Millisecond)
			}
			limittest.Settled(t, l)
		}
		if lanes, seats := limittest.Remembers(l); lanes > 6 || seats > 6 {
			t.Errorf("it has %d lanes and %d seats for a limit of three shards", lanes, seats)
		}
	})
}

// A process that knows an earlier layout declares it when all records were lost. The shards that it
// lists obey a later one by then, and give nothing.
func TestADeclarationOvertakesNoForgottenLayout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fl, nodes := limittest.BubbledNodes(t, 4)
		fl.Punctual = true
		limit := shardlimit.Limit{Permits: 40, Per: time.Minute, Shards: 4}
		rests := limittest.Limiter(t, fl.Client(t, limittest.TakesOver), "l", limit)
		changes := fl.Client(t, limittest.TakesOver)
		l := limittest.Limiter(t, changes, "l", limit)
		limittest.Settled(t, rests)
		limittest.DrainSlowly(t, rests) // every shard has state
		time.Sleep(time.Minute)
		limit.Shards = 1
		if err := l.SetLimit(t.Context(), limit); err != nil {
			t.Fatal(err)
		}
		limittest.Settled(t, l)
		if d, err := l.AllowUpTo(t.Context(), limit.Permits); err != nil || d.Granted != limit.Permits {
			t.Fatalf("%+v, %v", d, err)
		}
		changes.Close()
		for _, n := range nodes {
			n.Redis.Drop(limittest.IsOfARecord)
		}
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			if d, err := rests.AllowUpTo(t.Context(), limit.Permits); err == nil && d.Granted > 0 {
				t.Fatalf("%d permits beside all of them", d.Granted)
			}
		}
	})
}
