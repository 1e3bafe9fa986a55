package faults

import (
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/extent"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

type layoutChange struct {
	nodes  int
	change func(t *testing.T, f limittest.Fleet, l *shardlimit.Limiter) shardlimit.Limit
}

// layoutChanges make the second layout of a limit out of the first.
var layoutChanges = map[string]layoutChange{
	"a lower limit": {1, func(t *testing.T, _ limittest.Fleet, l *shardlimit.Limiter) shardlimit.Limit {
		return changed(t, l, func(next *shardlimit.Limit) { next.Permits = 8 })
	}},
	"another algorithm": {1, func(t *testing.T, _ limittest.Fleet, l *shardlimit.Limiter) shardlimit.Limit {
		return changed(t, l, func(next *shardlimit.Limit) { next.Algorithm = shardlimit.SlidingCounter })
	}},
	"other nodes": {3, func(t *testing.T, f limittest.Fleet, l *shardlimit.Limiter) shardlimit.Limit {
		here := limittest.Peek(t, l).Shards[0].Node
		c := f.With(limittest.Drained(f.Nodes, func(i int) bool { return f.Nodes[i].Name == here })...).Client(t)
		defer c.Close()
		if err := limittest.Limiter(t, c, "l", l.Limit()).Rebalance(t.Context()); err != nil {
			t.Fatal(err)
		}
		return l.Limit()
	}},
}

func changed(t *testing.T, l *shardlimit.Limiter, alter func(*shardlimit.Limit)) shardlimit.Limit {
	t.Helper()
	next := l.Limit()
	alter(&next)
	if err := l.SetLimit(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	return next
}

// twenty is in force before the changes.
var twenty = shardlimit.Limit{Permits: 20, Per: time.Second, Shards: 1}

// pace is the time from one call to the next: more of them than any limit here has permits.
const pace = 40 * time.Millisecond

// soon is how long it may take until a process in use has read the record again, and what it
// found is in force.
const soon = time.Minute

// endInOne drives the limiters together and checks that they end with one layout of the given
// limit, on the nodes that the last of them knows, and that no window is over it from then on.
func endInOne(t *testing.T, want shardlimit.Limit, limiters ...*shardlimit.Limiter) {
	t.Helper()
	callers := limittest.NewDemand(t, pace, limiters...)
	time.Sleep(soon)
	from := callers.Now()
	time.Sleep(soon)
	ops := limittest.Since(from, callers.Stop())
	first, err := limiters[0].Peek(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, l := range limiters {
		st, err := l.Peek(t.Context())
		if err != nil || !st.Settled || st.Epoch != first.Epoch || st.Limit != want {
			t.Errorf("process %d has %s at epoch %d, settled %v (%v); wanted %s at %d",
				i, st.Limit, st.Epoch, st.Settled, err, want, first.Epoch)
		}
	}
	worst := limittest.KeepsTo(t, want, ops)
	if worst.Permits < want.Permits/2 {
		t.Errorf("the best window has %d permits of %d", worst.Permits, want.Permits)
	}
}

// All records are lost, and the process that comes first knows an older layout than another one.
func TestAfterAllRecordsAreLostTheNewestGoesOn(t *testing.T) {
	for i, name := range slices.Sorted(maps.Keys(layoutChanges)) {
		if c := layoutChanges[name]; extent.Plays(i + 2) { // other nodes
			t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { allRecordsAreLost(t, c) }) })
		}
	}
}

func allRecordsAreLost(t *testing.T, c layoutChange) {
	f, servers := bubbledServers(t, c.nodes)
	older := limittest.Limiter(t, f.Client(t), "l", twenty)
	client := f.Client(t)
	newer := limittest.Limiter(t, client, "l", twenty)
	want := c.change(t, f, newer)
	time.Sleep(soon) // the change has settled; the other process has been idle all the time
	for _, m := range servers {
		m.Flush()
	}
	callers := limittest.NewDemand(t, pace, older)
	time.Sleep(2 * time.Second)
	callers.Stop()
	endInOne(t, want, older, newer)
}

// All records are lost, and the process that comes first is a new one, which knows what the code
// declares.
func TestADeclarationAfterALossDoesNotUndoAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, servers := bubbledServers(t, 1)
		knows := limittest.Limiter(t, f.Client(t), "l", twenty)
		want := changed(t, knows, func(next *shardlimit.Limit) { next.Permits = 8 })
		time.Sleep(soon)
		servers[0].Flush()
		endInOne(t, want, limittest.Limiter(t, f.Client(t), "l", twenty), knows)
	})
}

// Records come back from an old snapshot. A process that knows the change is alive, and a new one
// joins.
func TestARestoredRecordUndoesNoKnownChange(t *testing.T) {
	for i, name := range slices.Sorted(maps.Keys(layoutChanges)) {
		for k, idle := range []time.Duration{0, 90 * time.Second} { // of the process that knows
			if c := layoutChanges[name]; extent.Plays(2*i + 2*k) { // both rests, different changes
				t.Run(name+", "+idle.String()+" idle", func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { recordComesBack(t, c, idle) })
				})
			}
		}
	}
}

func recordComesBack(t *testing.T, c layoutChange, idle time.Duration) {
	f, servers := bubbledServers(t, c.nodes)
	client := f.Client(t)
	knows := limittest.Limiter(t, client, "l", twenty)
	var before []snapshot
	for _, m := range servers {
		before = append(before, recordsOn(t, m))
	}
	want := c.change(t, f, knows)
	callers := limittest.NewDemand(t, pace, knows)
	time.Sleep(soon - 5*time.Second) // it reads the record again before shards that left forget the change
	callers.Stop()
	for i, m := range servers {
		before[i].restore(m)
	}
	joined := limittest.Limiter(t, f.Client(t), "l", twenty)
	for begun := time.Now(); time.Since(begun) < idle; time.Sleep(pace) {
		// a shard without state is out of use while somebody is waited for
		_, _ = joined.Allow(t.Context())
	}
	endInOne(t, want, knows, joined)
}

// Nobody is left who knows the change: the restored record stands, and the limit works.
func TestARestoredRecordStandsIfNobodyKnowsBetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, servers := bubbledServers(t, 1)
		client := f.Client(t)
		knows := limittest.Limiter(t, client, "l", twenty)
		before := recordsOn(t, servers[0])
		changed(t, knows, func(next *shardlimit.Limit) { next.Permits = 8 })
		client.Close()
		before.restore(servers[0])
		endInOne(t, twenty, f.Group(t, 2, "l", twenty)...)
	})
}
