package call

import (
	"maps"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/dispatch"
	"github.com/shardlimit/shardlimit/internal/limit"
)

// Wherever in a lease permits are, they are those of the shards that granted them.
func TestPermitsOfALeaseKnowWhereTheyComeFrom(t *testing.T) {
	c := newTarget(&limit.Process{Clock: clock.Clock{Base: time.Now()}}, "", "", limit.Limit{})
	c.Process.Closed.Store(true) // nothing is given back
	leases := &NewMember(c, limit.NewParticipant("p", 1)).Leases
	seats := []*dispatch.Seat{{}, {}, {}}
	rapid.Check(t, func(t *rapid.T) {
		l := &lease{Until: math.MaxInt64}
		granted, found := map[dispatch.Part]int64{}, map[dispatch.Part]int64{}
		for range rapid.IntRange(1, 6).Draw(t, "parts") {
			p := dispatch.Part{Seat: rapid.SampledFrom(seats).Draw(t, "seat"),
				At: clock.ServerTime(rapid.Int64Range(1, 2).Draw(t, "at")),
				N:  rapid.Int64Range(1, 1500).Draw(t, "n")}
			l.grant.addPart(p, 0)
			granted[dispatch.Part{Seat: p.Seat, At: p.At, N: 0}] += p.N
		}
		note := func(d Decision) {
			for _, p := range d.parts() {
				found[dispatch.Part{Seat: p.Seat, At: p.At, N: 0}] += p.N
			}
		}
		l.Left.Store(l.grant.Granted)
		leases.put(l)
		current := leases.Current.Load()
		for _, n := range rapid.SliceOf(rapid.Int64Range(1, 2000)).Draw(t, "takes") {
			if place, ok := current.take(n); ok {
				note(Decision{Answer{Granted: n}, Origin{special: &current.origin, ticket: uint64(place)}})
			}
		}
		current.Timer.Stop()
		back := current.grant.firstOf(current.Left.Load())
		note(back)
		if !maps.Equal(granted, found) {
			t.Fatalf("granted %v, taken and left are %v", granted, found)
		}
		if most := len(current.grant.parts()); len(back.parts()) > most {
			t.Fatalf("%d parts go back, want at most %d", len(back.parts()), most)
		}
	})
}
