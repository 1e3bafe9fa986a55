package shardlimit_test

import (
	"context"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/extent"
)

type layoutChange struct {
	nodes  int
	change func(t *testing.T, f fleet, l *shardlimit.Limiter) shardlimit.Limit
}

// layoutChanges make the second layout of a limit out of the first.
var layoutChanges = map[string]layoutChange{
	"a lower limit": {1, func(t *testing.T, _ fleet, l *shardlimit.Limiter) shardlimit.Limit {
		return changed(t, l, func(next *shardlimit.Limit) { next.Permits = 8 })
	}},
	"another algorithm": {1, func(t *testing.T, _ fleet, l *shardlimit.Limiter) shardlimit.Limit {
		return changed(t, l, func(next *shardlimit.Limit) { next.Algorithm = shardlimit.SlidingCounter })
	}},
	"other nodes": {3, func(t *testing.T, f fleet, l *shardlimit.Limiter) shardlimit.Limit {
		here := peek(t, l).Shards[0].Node
		c := f.with(drained(f.nodes, func(i int) bool { return f.nodes[i].Name == here })...).client(t)
		defer c.Close()
		if err := limiter(t, c, "l", l.Limit()).Rebalance(t.Context()); err != nil {
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
const pace = 15 * time.Millisecond

// soon is how long it may take until a process in use has read the record again, and what it
// found is in force.
const soon = time.Minute

// endInOne drives the limiters together and checks that they end with one layout of the given
// limit, on the nodes that the last of them knows, and that no window is over it from then on.
func endInOne(t *testing.T, want shardlimit.Limit, limiters ...*shardlimit.Limiter) {
	t.Helper()
	callers := newDemand(t, pace, limiters...)
	time.Sleep(soon)
	from := callers.now()
	time.Sleep(soon)
	ops := since(from, callers.stop())
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
	worst := keepsTo(t, want, ops)
	if worst.Permits < want.Permits/2 {
		t.Errorf("the best window has %d permits of %d", worst.Permits, want.Permits)
	}
}

// All records are lost, and the process that comes first knows an older layout than another one.
func TestAfterAllRecordsAreLostTheNewestLayoutThatSomebodyKnowsGoesOn(t *testing.T) {
	for i, name := range slices.Sorted(maps.Keys(layoutChanges)) {
		if c := layoutChanges[name]; extent.Plays(i + 2) { // other nodes
			t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { allRecordsAreLost(t, c) }) })
		}
	}
}

func allRecordsAreLost(t *testing.T, c layoutChange) {
	f, servers := bubbledServers(t, c.nodes)
	older := limiter(t, f.client(t), "l", twenty)
	client := f.client(t)
	newer := limiter(t, client, "l", twenty)
	want := c.change(t, f, newer)
	time.Sleep(soon) // the change has settled; the other process has been idle all the time
	for _, m := range servers {
		m.Flush()
	}
	callers := newDemand(t, pace, older)
	time.Sleep(2 * time.Second)
	callers.stop()
	endInOne(t, want, older, newer)
}

// All records are lost, and the process that comes first is a new one, which knows what the code
// declares.
func TestADeclarationAfterALossDoesNotUndoAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, servers := bubbledServers(t, 1)
		knows := limiter(t, f.client(t), "l", twenty)
		want := changed(t, knows, func(next *shardlimit.Limit) { next.Permits = 8 })
		time.Sleep(soon)
		servers[0].Flush()
		endInOne(t, want, limiter(t, f.client(t), "l", twenty), knows)
	})
}

// Records come back from an old snapshot. A process that knows the change is alive, and a new one
// joins.
func TestARestoredRecordDoesNotUndoAChangeThatSomebodyKnows(t *testing.T) {
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
	client := f.client(t)
	knows := limiter(t, client, "l", twenty)
	var before []snapshot
	for _, m := range servers {
		before = append(before, recordsOn(t, m))
	}
	want := c.change(t, f, knows)
	callers := newDemand(t, pace, knows)
	time.Sleep(soon - 5*time.Second) // it reads the record again before shards that left forget the change
	callers.stop()
	for i, m := range servers {
		before[i].restore(m)
	}
	joined := limiter(t, f.client(t), "l", twenty)
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
		client := f.client(t)
		knows := limiter(t, client, "l", twenty)
		before := recordsOn(t, servers[0])
		changed(t, knows, func(next *shardlimit.Limit) { next.Permits = 8 })
		client.Close()
		before.restore(servers[0])
		endInOne(t, twenty, f.group(t, 2, "l", twenty)...)
	})
}

// Of three nodes one or two come back with old records; who knows the change has gone.
func TestTheNewestOfThreePlacesGoesOn(t *testing.T) {
	for restored := 1; restored <= 2; restored++ {
		for first := range 3 {
			if !extent.Plays(3*(restored-1) + first) { // both numbers, different first ones
				continue
			}
			synctest.Test(t, func(t *testing.T) {
				f, servers := bubbledServers(t, 3)
				client := f.client(t)
				knows := limiter(t, client, "l", twenty)
				var before []snapshot
				for _, m := range servers {
					before = append(before, recordsOn(t, m))
				}
				want := changed(t, knows, func(next *shardlimit.Limit) { next.Permits = 8 })
				time.Sleep(soon)
				client.Close()
				for i := range restored {
					at := (first + i) % 3
					before[at].restore(servers[at])
				}
				endInOne(t, want, f.group(t, 2, "l", twenty)...)
			})
		}
	}
}

// A limit is changed while shards are known to obey a later layout than the record's.
func TestAChangeAfterARestoreIsTheLastWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, servers := bubbledServers(t, 1)
		knows := limiter(t, f.client(t), "l", twenty)
		before := recordsOn(t, servers[0])
		changed(t, knows, func(next *shardlimit.Limit) { next.Permits = 8 })
		before.restore(servers[0])
		joined := limiter(t, f.client(t), "l", twenty)
		if _, err := joined.Allow(context.Background()); err != nil { // so it hears of the later layout
			t.Fatal(err)
		}
		synctest.Wait()
		want := changed(t, joined, func(next *shardlimit.Limit) { next.Permits = 10 })
		endInOne(t, want, knows, joined)
	})
}

// A limit is changed by a process that joined the restored record and knows nothing else. That is
// the latest change, and not taken for the one that was lost.
func TestAChangeOfARestoredRecordIsNotTakenForTheLostOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, servers := bubbledServers(t, 1)
		knows := limiter(t, f.client(t), "l", twenty)
		before := recordsOn(t, servers[0])
		changed(t, knows, func(next *shardlimit.Limit) { next.Permits = 8 })
		time.Sleep(time.Second)
		before.restore(servers[0])
		want := changed(t, limiter(t, f.client(t), "l", twenty), func(next *shardlimit.Limit) { next.Permits = 10 })
		endInOne(t, want, knows, limiter(t, f.client(t), "l", twenty))
	})
}

// Until somebody who knows the change has read the restored record, shards go on with what they
// have.
func TestARestoredRecordIsNotPutInForceWhileSomebodyMayKnowBetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, servers := bubbledServers(t, 1)
		knows := limiter(t, f.client(t), "l", twenty)
		before := recordsOn(t, servers[0])
		want := changed(t, knows, func(next *shardlimit.Limit) { next.Permits = 8 })
		time.Sleep(soon)
		before.restore(servers[0])
		callers := newDemand(t, pace, limiter(t, f.client(t), "l", twenty))
		time.Sleep(15 * time.Second)
		keepsTo(t, want, callers.stop())
	})
}
