package call

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/dispatch"
	"github.com/shardlimit/shardlimit/internal/limit"
)

// A process that an outage let pass has nothing of the limit: after the outage it has its part.
func TestWhatAnOutageLetPassIsNoPartOfTheLimit(t *testing.T) {
	of := limit.Limit{Permits: 4, Per: time.Minute}
	c := &Target{}
	c.Init(&limit.Process{Clock: clock.Clock{Base: time.Now()}}, c, "", "", of)
	r, counts := &limit.Routes{Plan: &limit.Plan{Limit: of}}, &Courtesy{target: c}
	counts.Got(r, &Decision{Answer{Granted: 3, Degraded: true}, Origin{Target: c}})
	if counts.had != 0 || counts.full {
		t.Errorf("it has %d of the limit", counts.had)
	}
	counts.Got(r, &Decision{Answer{Granted: 2}, Origin{Target: c}})
	if counts.had != 2 {
		t.Errorf("it has %d of the limit, want 2", counts.had)
	}
}

// Wherever in a lease permits are, they are those of the shards that granted them.
func TestPermitsOfALeaseKnowWhereTheyComeFrom(t *testing.T) {
	c := newTarget(&limit.Process{Clock: clock.Clock{Base: time.Now()}}, "", "", limit.Limit{})
	c.Process.Closed.Store(true) // nothing is given back
	leases := &NewMember(c, limit.NewParticipant("p", 1)).Leases
	accounts := []*dispatch.Account{{}, {}, {}}
	rapid.Check(t, func(t *rapid.T) {
		l := &lease{Until: math.MaxInt64}
		granted, found := map[dispatch.Part]int64{}, map[dispatch.Part]int64{}
		for range rapid.IntRange(1, 6).Draw(t, "parts") {
			p := dispatch.Part{Account: rapid.SampledFrom(accounts).Draw(t, "account"),
				At: clock.ServerTime(rapid.Int64Range(1, 2).Draw(t, "at")),
				N:  rapid.Int64Range(1, 1500).Draw(t, "n")}
			l.grant.addPart(p, 0)
			granted[dispatch.Part{Account: p.Account, At: p.At, N: 0}] += p.N
		}
		note := func(d Decision) {
			for _, p := range d.parts() {
				found[dispatch.Part{Account: p.Account, At: p.At, N: 0}] += p.N
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

// lineOfOne is a line that notes when it is woken.
type lineOfOne struct {
	name  string
	woken *[]string
}

func (l *lineOfOne) Wake(bool) { *l.woken = append(*l.woken, l.name) }
func (l *lineOfOne) Len() int  { return 1 }

// Permits that are given back wake only the lines in which callers wait, in their order. So the
// cost does not grow with the participants that a proxy calls for.
func TestOnlyLinesAreWokenInWhichSomebodyWaits(t *testing.T) {
	c := &Target{}
	c.Init(&limit.Process{Clock: clock.Clock{Base: time.Now()}}, c, "", "", limit.Limit{Permits: 1, Per: time.Minute})
	c.Members.own = &c.member
	for i := range 5000 {
		c.Members.of(limit.NewParticipant(fmt.Sprint("customer ", i), 1))
	}
	if allocs := testing.AllocsPerRun(10, func() { c.Members.Wake(false) }); allocs > 1 {
		t.Errorf("nobody waits, and waking them takes %v allocations", allocs)
	}
	var woken []string
	lines := make([]*lineOfOne, 3)
	for i := range lines {
		lines[i] = &lineOfOne{fmt.Sprint(i), &woken}
		c.Members.Waits(lines[i])
	}
	c.Members.Ends(lines[1])
	c.Members.Wake(true)
	if !slices.Equal(woken, []string{"0", "2"}) {
		t.Errorf("woken are %v", woken)
	}
}
