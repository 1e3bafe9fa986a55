package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/internal/history"
)

// crowd is two members with equal rates and one that comes late and leaves early.
func crowd(t *testing.T, kind Kind) Crowd {
	j := job(t, kind)
	return Crowd{
		Kind: kind, Addrs: j.Addrs[:1], Limit: "crowd", Permits: 40, Per: time.Second, Shards: 1,
		Members: []Member{
			{Name: "a", Weight: 1, Rate: 400}, {Name: "b", Weight: 1, Rate: 400, Far: time.Millisecond},
			{Name: "c", Weight: 1, Rate: 400, From: 50 * time.Millisecond, To: 150 * time.Millisecond},
		},
		Tick: 5 * time.Millisecond, For: 200 * time.Millisecond, Seed: 1, Life: time.Minute,
	}
}

func TestGather(t *testing.T) {
	for _, kind := range []Kind{Coalesced, FirstCome, RedisRate} {
		for _, gateway := range []bool{false, true} {
			oneOf(t, func() error { return gather(t, kind, gateway) })
		}
	}
}

func gather(t *testing.T, kind Kind, gateway bool) error {
	c, f := crowd(t, kind), start(t, 2)
	c.Gateway = gateway
	var marks []time.Duration
	g, err := f.Gather(t.Context(), c,
		Mark{0, func() error { marks = append(marks, 0); return nil }},
		Mark{c.For, func() error { marks = append(marks, c.For); return nil }})
	if err != nil {
		t.Fatalf("%s: %v", kind, err)
	}
	if !slices.Equal(marks, []time.Duration{0, c.For}) || len(g.Trails) != 3 {
		t.Errorf("%s: marks %v, %d trails", kind, marks, len(g.Trails))
	}
	var granted, wanted, last int64
	for i, trail := range g.Trails {
		if trail.Index != i {
			t.Errorf("%s: trail %d is that of %d", kind, i, trail.Index)
		}
		for _, take := range trail.Takes {
			granted, wanted, last = granted+take.Granted, wanted+take.Wanted, max(last, take.End)
			if take.End < take.At || take.Granted > take.Wanted {
				t.Errorf("%s: take %+v", kind, take)
			}
			if at := time.Duration(take.At) * time.Microsecond; i == 2 && at < c.Members[2].From-time.Millisecond {
				t.Errorf("%s: somebody who is not there yet calls at %s", kind, at)
			}
		}
	}
	// 200 calls are due in all, and the limit is 40; redis_rate lets more in as time passes, 40 a
	// second.
	if most := 41 + 40*last/1e6; wanted > 300 || granted > most {
		t.Errorf("%s: %d of %d granted in %d us, at most %d may be", kind, granted, wanted, last, most)
	}
	if wanted+g.Unsent < 120 || granted < 30 || g.Failed != 0 {
		return fmt.Errorf("%s: %d of %d granted, %d never sent, %d failed (%s)", kind, granted, wanted, g.Unsent,
			g.Failed, g.Err)
	}
	return nil
}

// TestArrivals: those of a steady member come at equal distances, each member's at times
// of its own; the others' come at random. Both keep to the rate.
func TestArrivals(t *testing.T) {
	const rate, calls = 100.0, 2000
	distance := time.Second / rate
	phases := make(map[time.Duration]bool)
	for i := range 8 {
		for _, even := range []bool{false, true} {
			m := Member{Rate: rate, Even: even, Index: i}
			next, again := m.arrivals(1), m.arrivals(1)
			first := next().At
			if again().At != first {
				t.Fatalf("the same seed begins at %s and at another time", first)
			}
			last, apart := first, 0
			for range calls {
				at := next().At
				if gap := at - last; gap < 0 {
					t.Fatalf("a call at %s after one at %s", at, last)
				} else if gap < distance-time.Microsecond || gap > distance+time.Microsecond {
					apart++
				}
				last = at
			}
			if even != (apart == 0) || !even && apart < calls/2 {
				t.Errorf("even %v: %d of %d distances differ from %s", even, apart, calls, distance)
			}
			if mean := (last - first) / calls; mean < distance*9/10 || mean > distance*11/10 {
				t.Errorf("even %v: a call every %s, want %s", even, mean, distance)
			}
			if even {
				phases[first] = true
				if first >= distance {
					t.Errorf("the first call is at %s, want it within %s", first, distance)
				}
			}
		}
	}
	if len(phases) != 8 {
		t.Errorf("8 steady members begin at %d different times", len(phases))
	}
}

// TestPlayIsSteady: as many calls as are due at equal distances are made, whenever the
// member comes to look; at random it would be some other number, with this seed.
func TestPlayIsSteady(t *testing.T) {
	const rate = 4000
	c := Crowd{Tick: 5 * time.Millisecond, For: 100 * time.Millisecond, Seed: 4}
	g := &gatherer{c: &c, begin: history.Now()}
	g.play(t.Context(), Member{Rate: rate, Even: true},
		func(_ context.Context, n int64) (int64, error) { return n, nil })
	calls := g.Unsent
	for _, take := range g.Trails[0].Takes {
		calls += take.Wanted
	}
	if least, most := int64(rate*(c.For-c.Tick).Seconds()), int64(rate*c.For.Seconds()); calls < least || calls > most {
		t.Errorf("%d calls, want %d to %d", calls, least, most)
	}
}

// TestWeightsCount: of two who want all there is, the one that weighs three times as much gets
// more.
func TestWeightsCount(t *testing.T) {
	c, f := crowd(t, Coalesced), start(t, 1)
	c.Permits, c.Per, c.For = 100, 500*time.Millisecond, 2*time.Second
	c.Members = []Member{{Name: "light", Weight: 1, Rate: 400}, {Name: "heavy", Weight: 3, Rate: 400}}
	for _, gateway := range []bool{false, true} {
		tries := 0
		oneOf(t, func() error {
			tries++
			c.Gateway, c.Limit = gateway, fmt.Sprint("weights ", gateway, tries)
			g, err := f.Gather(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			var got [2]int64
			for i, trail := range g.Trails {
				for _, take := range trail.Takes {
					if take.At > 800_000 { // until somebody has been refused, first come is first served
						got[i] += take.Granted
					}
				}
			}
			if 2*got[1] < 3*got[0] || got[1] < c.Permits {
				return fmt.Errorf("gateway %v: %d and %d", gateway, got[0], got[1])
			}
			return nil
		})
	}
}

func TestGatherFails(t *testing.T) {
	c, boom := crowd(t, FirstCome), errors.New("boom")
	if _, err := start(t, 1).Gather(t.Context(), c, Mark{0, func() error { return boom }}); !errors.Is(err, boom) {
		t.Errorf("err %v, want that of the mark", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	c.For = time.Hour
	if _, err := start(t, 1).Gather(ctx, c, Mark{0, func() error { cancel(); return nil }}); !errors.Is(err,
		context.Canceled) {
		t.Errorf("err %v, want that of the context", err)
	}
	c.Kind = "odd"
	if _, err := start(t, 1).Gather(t.Context(), c); err == nil {
		t.Error("no error of a kind that does not exist")
	}
}

// TestDistance: everything arrives, in order, no earlier than the delay after it
// was sent, and what is on the way does not hold up what follows.
func TestDistance(t *testing.T) {
	const delay = 30 * time.Millisecond
	near, far := net.Pipe()
	conn := delayed(near, delay)
	sent := make(chan time.Time, 1)
	go func() {
		sent <- time.Now()
		for _, text := range []string{"one ", "two ", "three"} {
			_, _ = far.Write([]byte(text))
		}
		_ = far.Close()
	}()
	text, err := io.ReadAll(conn)
	if err != nil || string(text) != "one two three" {
		t.Fatalf("read %q, err %v", text, err)
	}
	if took := time.Since(<-sent); took < delay {
		t.Errorf("arrived after %s, want at least %s", took, delay)
	}
	if delayed(near, 0) != near {
		t.Error("without a delay the connection is another one")
	}
}

func TestDistantConnectionCloses(t *testing.T) {
	near, far := net.Pipe()
	conn := delayed(near, time.Hour)
	go func() { _, _ = far.Write([]byte("late")) }()
	done := make(chan error, 1)
	go func() {
		_, err := conn.Read(make([]byte, 10))
		done <- err
	}()
	_ = conn.Close()
	if err := <-done; err == nil {
		t.Error("what is an hour away was read")
	}
	_ = far.Close()
}

func TestDealtCrowd(t *testing.T) {
	c := Crowd{Members: make([]Member, 5)}
	seen := make(map[int]bool)
	for i := range 2 {
		for _, m := range c.dealt(i, 2).Members {
			seen[m.Index] = true
		}
	}
	if len(seen) != 5 {
		t.Errorf("dealt %v", seen)
	}
}
