package waiting

import (
	"context"
	"errors"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/race"
)

func TestCloseEndsBlockedCallsWithErrClosed(t *testing.T) {
	t.Parallel()
	fl, posts := limittest.Proxied(t, 2)
	c := fl.Client(t, limittest.PatientFor(5*time.Minute)) // longer than the test: only Close can end them
	full := limittest.Limiter(t, c, "full", shardlimit.PerHour(1))
	limittest.MustGet(t, full, 1)
	split := limittest.Limiter(t, c, "split", shardlimit.Limit{Permits: 100, Per: time.Hour, Shards: 2})
	single := limittest.Limiter(t, c, "single", shardlimit.PerHour(100))
	family, err := c.Family(t.Context(), "family", shardlimit.PerHour(100))
	if err != nil {
		t.Fatal(err)
	}
	key := family.Limiter("key")
	var granted shardlimit.Decision
	for _, l := range []*shardlimit.Limiter{split, key, single} {
		if granted, err = l.Allow(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	slots, err := c.Slots(t.Context(), "held", 2, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	slot, err := slots.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	warm := limittest.Limiter(t, c, "warm", shardlimit.Limit{Permits: 10, Per: time.Hour, Shards: 2})
	if d, err := warm.AllowUpTo(t.Context(), 1000); err != nil ||
		d.Granted != 10 { // it has both nodes load the full take
		t.Fatalf("%+v, %v", d, err)
	}
	var sent int64
	for _, p := range posts {
		p.Proxy.Stall(true)
		sent += p.Takes.Load()
	}
	calls := map[string]func() error{
		"Wait":         func() error { return full.Wait(context.Background()) },
		"Allow":        func() error { _, err := single.Allow(context.Background()); return err },
		"AllowN":       func() error { _, err := split.AllowN(context.Background(), 99); return err },
		"AllowUpTo":    func() error { _, err := split.AllowUpTo(context.Background(), 99); return err },
		"a key":        func() error { _, err := key.Allow(context.Background()); return err },
		"Reserve":      func() error { _, err := split.Reserve(context.Background(), 99); return err },
		"Set":          func() error { return limittest.Set(1, single, key).Wait(context.Background()) },
		"Settle":       func() error { return single.Settle(context.Background(), granted, 0) },
		"Reset":        func() error { return split.Reset(context.Background()) },
		"Peek":         func() error { _, err := split.Peek(context.Background()); return err },
		"SetLimit":     func() error { return split.SetLimit(context.Background(), shardlimit.PerHour(50)) },
		"Participants": func() error { _, err := split.Participants(context.Background()); return err },
		"Slots":        func() error { _, err := c.Slots(context.Background(), "slots", 2, time.Minute); return err },
		"Extend":       func() error { return slot.Extend(context.Background()) },
	}
	type end struct {
		name string
		err  error
	}
	ends := make(chan end, 2*len(calls))
	for name, call := range calls {
		for range 2 { // the second waits behind the first
			go func() { ends <- end{name, call()} }()
		}
	}
	limittest.AwaitThat(t, "calls are under way", func() bool {
		now := int64(0)
		for _, p := range posts {
			now += p.Takes.Load()
		}
		return now >= sent+3
	})
	began := time.Now()
	c.Close()
	if took := time.Since(began); took > time.Minute {
		t.Errorf("Close took %s", took)
	}
	for range cap(ends) {
		select {
		case e := <-ends:
			if !errors.Is(e.err, shardlimit.ErrClosed) {
				t.Errorf("%s: %v", e.name, e.err)
			}
		case <-time.After(limittest.Patience):
			t.Fatal("a call goes on after Close")
		}
	}
}

func TestCloseEndsCallsOnAClientThatIsNotItsOwn(t *testing.T) {
	t.Parallel()
	fl, posts := limittest.Proxied(t, 1)
	option := fl.Nodes[0].Redis
	option.AlwaysPipelining = true
	option.ConnWriteTimeout, option.Dialer.KeepAlive = time.Hour, time.Hour // it will not give the connection up
	given, err := rueidis.NewClient(option)
	if err != nil {
		t.Fatal(err)
	}
	defer given.Close()
	fl.Nodes = []shardlimit.Node{{Name: "n0", Client: given}}
	c := fl.Client(t, limittest.PatientFor(5*time.Minute))
	l := limittest.Limiter(t, c, "l", shardlimit.PerHour(10))
	limittest.MustGet(t, l, 1)
	posts[0].Proxy.Stall(true)
	sent := posts[0].Takes.Load()
	ended := make(chan error, 1)
	go func() { _, err := l.Allow(context.Background()); ended <- err }()
	limittest.AwaitThat(t, "the call is sent", func() bool { return posts[0].Takes.Load() > sent })
	c.Close()
	select {
	case err := <-ended:
		if !errors.Is(err, shardlimit.ErrClosed) {
			t.Error(err)
		}
	case <-time.After(limittest.Patience):
		t.Error("the call goes on after Close")
	}
	posts[0].Proxy.Stall(false)
	if err := given.Do(t.Context(), given.B().Ping().Build()).Error(); err != nil {
		t.Errorf("the given client was closed: %v", err)
	}
}

func TestCallsAfterCloseReturnErrClosed(t *testing.T) {
	f := limittest.Standalone(t)
	c := f.Client(t)
	l := limittest.Limiter(t, c, "l", shardlimit.PerHour(10))
	d, err := l.Allow(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	family, err := c.Family(t.Context(), "f", shardlimit.PerHour(10))
	if err != nil {
		t.Fatal(err)
	}
	known := family.Limiter("known")
	c.Close()
	c.Close()
	calls := limittest.Calls(l, 2, d)
	maps.Copy(calls, limittest.Opens(c, "m"))
	calls["a known key"] = func(ctx context.Context) error { _, err := known.Allow(ctx); return err }
	calls["a new key"] = func(ctx context.Context) error { _, err := family.Limiter("new").Allow(ctx); return err }
	calls["Family.SetLimit"] = func(ctx context.Context) error { return family.SetLimit(ctx, shardlimit.PerHour(1)) }
	for name, call := range calls {
		limittest.ErrorIs(t, call(t.Context()), shardlimit.ErrClosed, name)
	}
}

// Not parallel: it looks at all goroutines of the process.
func TestCloseLeavesNoGoroutineBehind(t *testing.T) {
	fl, posts := limittest.Proxied(t, 3)
	for _, p := range posts {
		p.Do(t, "PING") // its connection is there before and after
	}
	limittest.AwaitThat(t, "earlier tests have gone", func() bool { return len(limittest.OwnGoroutines()) <= 12 })
	before := len(limittest.OwnGoroutines())
	c := fl.Client(t, limittest.OnOutage(shardlimit.FailOpen))
	l := limittest.Limiter(t, c, "l", shardlimit.Limit{Permits: 100, Per: time.Hour, Shards: 3})
	var wg sync.WaitGroup
	for i := range 30 {
		wg.Go(func() {
			switch i % 3 {
			case 0:
				_ = l.WaitN(context.Background(), 50)
			case 1:
				_, _ = l.AllowN(context.Background(), 5)
			case 2:
				_ = l.Wait(limittest.Shortly(t, time.Duration(i)*time.Millisecond))
			}
		})
	}
	posts[0].Server.Pause()
	posts[1].Server.Kill()
	_ = limittest.Limiter(t, c, "away", shardlimit.PerSecond(1)) // may go on trying to declare itself
	_ = l.SetLimit(limittest.Shortly(t, 100*time.Millisecond), shardlimit.Limit{Permits: 50, Per: time.Hour, Shards: 2})
	c.Close()
	wg.Wait()
	if !race.Enabled { // a client that connects to a server that is paused gives up after ten seconds
		posts[0].Server.Resume()
	}
	limittest.AwaitThat(t, "no goroutine is left", func() bool {
		time.Sleep(100 * time.Millisecond) // spares the processor
		return len(limittest.OwnGoroutines()) <= before
	})
	posts[0].Server.Resume()
}
