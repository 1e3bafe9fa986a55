package promises

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/history"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/race"
)

// Processes that declare different limits, all at once and in use from the first moment, go by one
// of these: that of the highest revision, if one has a revision.
func TestMixedDeclarationsConvergeOnOneLayout(t *testing.T) {
	base := shardlimit.Limit{Permits: 400, Per: 200 * time.Millisecond, Shards: 4}
	for name, other := range map[string]shardlimit.Limit{
		"limit":    {Permits: 900, Per: 500 * time.Millisecond, Shards: 8},
		"revision": {Permits: 150, Per: 200 * time.Millisecond, Shards: 8, Revision: 1},
	} {
		limittest.RunInBubble(t, name, 4, func(t *testing.T, f limittest.Fleet) {
			var limiters [6]*shardlimit.Limiter
			var demands [6]*limittest.Demand
			begun := time.Now()
			var wg sync.WaitGroup
			for i := range limiters {
				c, declared := f.Client(t), base
				if i%2 == 1 {
					declared = other
				}
				wg.Go(func() {
					limiters[i] = limittest.Limiter(t, c, "l", declared)
					demands[i] = limittest.NewDemand(t, time.Millisecond, limiters[i])
				})
			}
			wg.Wait()
			inForce := limittest.AwaitOneLayout(t, limiters[:]).Limit
			from := int64(time.Since(begun))
			time.Sleep(3 * max(base.Per, other.Per))
			var ops []history.Op
			for _, d := range demands {
				for _, op := range d.Stop() {
					since := int64(d.Begun.Sub(begun))
					ops = append(ops, history.Op{Start: op.Start + since, End: op.End + since, Permits: op.Permits})
				}
			}
			if inForce != other && (inForce != base || other.Revision > 0) {
				t.Errorf("%s is in force", inForce)
			}
			if other.Revision > 0 { // before, the other one may have been in force
				ops = limittest.Since(from, ops)
			}
			limittest.KeepsTo(t, inForce, ops)
		})
	}
}

// TestSetLimitNeverExceedsTheGreaterLimit: under load, no window that overlaps a change holds more
// than the greater limit, and none after it more than the new one, whatever the algorithm.
func TestSetLimitNeverExceedsTheGreaterLimit(t *testing.T) {
	t.Parallel()
	const w = 150 * time.Millisecond
	f, _ := limittest.Independent(t, 4)
	limit := shardlimit.Limit{Permits: 1000, Per: w, Shards: 4}
	limiters := f.Group(t, 4, "l", limit)
	callers := limittest.NewTraffic(t)
	callers.Start(2, limiters...)
	type change struct {
		limit            shardlimit.Limit
		called, returned int64
	}
	changes := []change{{limit: limit, returned: history.Now()}}
	for i, next := range []shardlimit.Limit{
		{Permits: 3000, Per: w, Shards: 4},     // rate up
		{Permits: 500, Per: w, Shards: 4},      // rate down
		{Permits: 500, Per: 2 * w, Shards: 4},  // longer window
		{Permits: 500, Per: w, Shards: 16},     // shorter window, more shards
		{Permits: 2000, Per: 2 * w, Shards: 3}, // fewer shards
		{Permits: 300, Per: w, Shards: 1, Algorithm: shardlimit.SlidingCounter},
		{Permits: 300, Per: w, Shards: 6, Algorithm: shardlimit.FixedWindow},
		{Permits: 300, Per: w, Shards: 4, Algorithm: shardlimit.TokenBucket},
		{Permits: 300, Per: w, Shards: 2, Algorithm: shardlimit.LeakyBucket},
		{Permits: 300, Per: w, Shards: 7},
	} {
		limittest.AwaitThat(t, "half of the limit is in use", func() bool {
			st, err := limiters[0].Peek(context.Background())
			return err == nil && st.Used >= st.Limit.Permits/2
		})
		time.Sleep(3 * changes[i].limit.Per) // how long it is in use; nothing is right because of it
		c := change{limit: next, called: history.Now()}
		limittest.Must(t, limiters[i%len(limiters)].SetLimit(t.Context(), next))
		c.returned = history.Now()
		changes = append(changes, c)
		if st := limittest.AwaitOneLayout(t, limiters); st.Limit != next {
			t.Errorf("%s is in force instead of %s", st.Limit, next)
		}
		limittest.SharesSumTo(t, limiters[i%len(limiters)], next.Permits)
	}
	time.Sleep(6 * w)
	ops := callers.Ended(t)
	changes = append(changes, change{called: history.Now()})
	for i, c := range changes[1 : len(changes)-1] {
		before, until := limittest.Ceiling(changes[i].limit), changes[i+2].called
		after := limittest.Ceiling(c.limit)
		greater := shardlimit.Limit{Permits: max(before.Permits, after.Permits), Per: min(before.Per, after.Per)}
		if before.Algorithm != after.Algorithm { // as where a token bucket gives way to something else
			greater.Permits = max(greater.Permits, 3*c.limit.Permits)
		}
		limittest.KeepsTo(t, greater, between(changes[i].returned, until, ops))
		limittest.KeepsTo(t, after, between(c.returned, until, ops))
	}
}

// mortal is a Redis client of a process that dies: after so many script calls nothing that it sends
// arrives any more.
type mortal struct {
	rueidis.Client
	left *atomic.Int64
}

func (m mortal) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	if m.left.Add(-1) < 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		cancel()
	}
	return m.Client.Do(ctx, cmd)
}

// A process changes the limit and is gone half-way, wherever that is: others that use the limit
// find the change, if it is stored, and finish it. Else nothing has changed.
func TestAChangeWhoseProcessDiedIsFinishedByOthers(t *testing.T) {
	before := shardlimit.Limit{Permits: 8, Per: time.Second, Shards: 4}
	finished, step := 0, int64(2)
	if race.Enabled {
		step = 7 // what runs side by side is the same
	}
	for _, after := range []shardlimit.Limit{
		{Permits: 18, Per: time.Second, Shards: 9}, {Permits: 4, Per: 1500 * time.Millisecond, Shards: 2},
	} {
		for calls, failed := int64(0), true; failed; calls += step {
			limittest.InBubble(t, 2, func(t *testing.T, f limittest.Fleet) {
				var left atomic.Int64
				left.Store(1 << 40)
				broken := f.With(slices.Clone(f.Nodes)...)
				for i, n := range f.Nodes {
					client, err := rueidis.NewClient(n.Redis)
					limittest.Must(t, err)
					t.Cleanup(client.Close)
					broken.Nodes[i] = shardlimit.Node{Name: n.Name, Client: mortal{client, &left}}
				}
				dying := broken.Client(t)
				setter, limiters := limittest.Limiter(t, dying, "l", before), f.Group(t, 3, "l", before)
				demand := limittest.NewDemand(t, 80*time.Millisecond, limiters...)
				time.Sleep(2 * time.Second)
				left.Store(calls)
				failed = setter.SetLimit(t.Context(), after) != nil
				dying.Close()
				time.Sleep(16 * time.Second) // in which a process in use looks at the record
				settled, st := demand.Now(), limittest.AwaitOneLayout(t, limiters)
				time.Sleep(2 * time.Second)
				ops := demand.Stop()
				if st.Limit == after && failed {
					finished++
				}
				if st.Limit != after && (st.Limit != before || !failed) {
					t.Errorf("%s is in force", st.Limit)
				}
				limittest.SharesSumTo(t, limiters[0], st.Limit.Permits)
				greater := shardlimit.Limit{Permits: max(before.Permits, after.Permits), Per: time.Second}
				limittest.KeepsTo(t, greater, ops)
				limittest.KeepsTo(t, st.Limit, limittest.Since(settled, ops))
			})
		}
	}
	if t.Logf("%d changes of dead processes were finished", finished); finished == 0 {
		t.Error("it never died half-way")
	}
}

// A process forgets the shards of a layout with it, however often a limit moves. Shards of an
// algorithm that the limit had before never return.
func TestShardsOfEarlierLayoutsAreForgotten(t *testing.T) {
	limittest.InBubble(t, 3, func(t *testing.T, f limittest.Fleet) {
		l := f.Limiter(t, shardlimit.Limit{Permits: 30, Per: time.Second, Shards: 3})
		for i := range 8 {
			next := shardlimit.Limit{Permits: 30, Per: time.Second, Shards: 3,
				Algorithm: []shardlimit.Algorithm{shardlimit.SlidingCounter, shardlimit.SlidingLog,
					shardlimit.TokenBucket}[i%3]}
			limittest.Must(t, l.SetLimit(t.Context(), next))
			for range 20 {
				_, _ = l.Allow(t.Context())
				time.Sleep(500 * time.Millisecond)
			}
			limittest.Settled(t, l)
		}
		if shards, accounts := limittest.Remembers(l); shards > 6 || accounts > 6 {
			t.Errorf("it knows %d shards and has %d accounts for a limit of three shards", shards, accounts)
		}
	})
}

// The log says once that a stored limit overrules a declaration.
func TestADeclarationThatIsNotInForceSaysSo(t *testing.T) {
	servers := limittest.Standalone(t)
	stored := shardlimit.PerHour(2000)
	limittest.Family(t, servers.Client(t), "f", stored)
	servers.Limiter(t, stored)
	for declared, lines := range map[shardlimit.Limit]int{ // one of the limit, one of the family
		stored: 0, shardlimit.PerHour(500): 2, {Permits: 2000, Per: time.Hour, Algorithm: shardlimit.FixedWindow}: 2,
	} {
		var log bytes.Buffer
		client := servers.Client(t,
			func(cfg *shardlimit.Config) { cfg.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		for range 2 {
			limittest.Limiter(t, client, "l", declared)
			limittest.Family(t, client, "f", declared)
		}
		if n := strings.Count(log.String(), "is not in force"); n != lines {
			t.Errorf("%s: %d lines in the log, want %d: %s", declared, n, lines, log.String())
		}
	}
}
