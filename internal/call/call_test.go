package call

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"pgregory.net/rapid"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/dispatch"
	"github.com/shardlimit/shardlimit/internal/limit"
	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/internal/register"
	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
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

// What shards showed of a layout says nothing of the limit that is declared after it was deleted.
func TestALimitThatIsDeclaredAfterDeleteIsNotOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := miniredis.NewMiniRedis()
		redis.ClockTTL(true)
		client, c := joinedOn(t, redis, "l", limit.Limit{Permits: 10, Per: time.Minute, Shards: 2})
		// A change that was made while the server's clock was an hour ahead.
		c.Register.Behind(time.Now().Add(time.Hour).UnixMicro())
		l := c.Limiter()
		must(t, l.Delete(t.Context()))
		c, err := client.Declare(t.Context(), Limiters, "l", limit.Limit{Permits: 10, Per: time.Minute, Shards: 2})
		must(t, err)
		l = c.Limiter()
		var d Decision
		if err := l.Allow(t.Context(), 10, false, &d); err != nil || !d.Allowed || d.Degraded {
			t.Errorf("%+v, %v", d, err)
		}
	})
}

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

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// joinedOn returns a process of its own that has joined a limit on a server.
func joinedOn(t *testing.T, redis *miniredis.Miniredis, name string, declared limit.Limit) (*Client, *Target) {
	t.Helper()
	c, err := New(limit.Config{CallTimeout: time.Second, Nodes: []node.Spec{{Name: "n", Option: rueidis.ClientOption{
		InitAddress: []string{"n:1"}, ForceSingleClient: true,
		DialCtxFn: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) { return redis.Dial() },
	}}}}, limit.Errors{})
	must(t, err)
	t.Cleanup(c.Close)
	l, err := c.Declare(t.Context(), Limiters, name, declared)
	must(t, err)
	return c, l
}

// A shard that has lost its memory is told of, and the record is read again, whichever call finds
// it: also one that asks for no permits.
func TestALossIsNoticedByACallThatAsksForNoPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := miniredis.NewMiniRedis()
		redis.ClockTTL(true)
		_, c := joinedOn(t, redis, "l", limit.Limit{Permits: 100, Per: time.Minute, Shards: 1})
		var log bytes.Buffer
		c.Process.Config.Logger = slog.New(slog.NewTextHandler(&log, nil))
		l, d := Limiter{Target: c, member: &c.member}, Decision{}
		if err := l.Allow(t.Context(), 1, false, &d); err != nil || !d.Allowed {
			t.Fatalf("%+v, %v", d, err)
		}
		layout := c.Routes.Load().Layout
		for _, key := range redis.Keys() {
			if strings.Contains(key, "{"+shard.Tag(layout.Shards[0].Slot)+"}l:") {
				redis.Del(key)
			}
		}
		asked := c.Register.Believed(layout.Epoch, c.Process.Clock.Elapsed())
		time.Sleep(time.Second)
		offer := &register.Offer{Layout: layout, Shard: layout.Shards[0]}
		if reply, err := c.Register.Limit.Propose(t.Context(), offer); err != nil || reply.Status != script.Lost {
			t.Fatalf("%+v, %v", reply, err)
		}
		synctest.Wait()
		if !strings.Contains(log.String(), "lost its memory") {
			t.Errorf("the log says %q", log.String())
		}
		if c.Register.Believed(layout.Epoch, c.Process.Clock.Elapsed()) == asked {
			t.Error("the record was not read again")
		}
	})
}
