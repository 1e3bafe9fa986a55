package shardlimit

import (
	"maps"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/lane"
	"github.com/shardlimit/shardlimit/internal/striped"
)

// Wherever in a lease permits are, they are those of the shards that granted them.
func TestPermitsOfALeaseKnowWhereTheyComeFrom(t *testing.T) {
	c := &core{client: &Client{clock: clock.Clock{Base: time.Now()}}}
	c.client.closed.Store(true) // nothing is given back
	leases := &newMember(c, newParticipant("p", 1)).leases
	seats := []*lane.Seat{{}, {}, {}}
	rapid.Check(t, func(t *rapid.T) {
		l := &lease{until: math.MaxInt64}
		granted, found := map[lane.Part]int64{}, map[lane.Part]int64{}
		for range rapid.IntRange(1, 6).Draw(t, "parts") {
			p := lane.Part{Seat: rapid.SampledFrom(seats).Draw(t, "seat"), At: rapid.Int64Range(1, 2).Draw(t, "at"),
				N: rapid.Int64Range(1, 1500).Draw(t, "n")}
			l.grant.addPart(p, 0)
			granted[lane.Part{Seat: p.Seat, At: p.At, N: 0}] += p.N
		}
		note := func(d Decision) {
			for _, p := range d.parts() {
				found[lane.Part{Seat: p.Seat, At: p.At, N: 0}] += p.N
			}
		}
		l.Fill(l.grant.Granted, 4)
		leases.put(l)
		for _, n := range rapid.SliceOf(rapid.Int64Range(1, 2000)).Draw(t, "takes") {
			current := leases.current.Load()
			var d Decision
			if place, _, ok := current.Take(n); ok {
				d = current.origin([]striped.Pile{{Place: place, N: n}})
				if d.Granted != n {
					t.Fatalf("%d of %d", d.Granted, n)
				}
			}
			note(d)
		}
		current := leases.current.Load()
		current.timer.Stop()
		rest, _ := current.Close()
		back := current.origin(rest)
		note(back)
		if !maps.Equal(granted, found) {
			t.Fatalf("granted %v, taken and left are %v", granted, found)
		}
		if most := len(current.grant.parts()) + len(rest); len(back.parts()) > most {
			t.Fatalf("%d parts go back, want at most %d", len(back.parts()), most)
		}
	})
}

// A lease that one shard granted goes back with one command, however many stripes it had.
func TestTheRestOfALeaseGoesBackTogether(t *testing.T) {
	s := &lane.Seat{}
	var l lease
	l.grant.addPart(lane.Part{Seat: s, At: 7, N: 8 * striped.LeastStripe}, 0)
	l.Fill(8*striped.LeastStripe, 4)
	rest, _ := l.Close()
	back := l.origin(rest)
	if parts := back.parts(); len(rest) != 8 || len(parts) != 1 ||
		parts[0] != (lane.Part{Seat: s, At: 7, N: 8 * striped.LeastStripe}) {
		t.Errorf("%d stripes, parts %+v", len(rest), parts)
	}
}
