package waiting

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/race"
)

// Close ends with ErrClosed every call that nodes hold up, and everybody who waits in a line. Calls
// that come later end so, too.
func TestCloseEndsBlockedCallsWithErrClosed(t *testing.T) {
	t.Parallel()
	fl, posts := limittest.Proxied(t, 2)
	c := fl.Client(t, limittest.PatientFor(5*time.Minute)) // longer than the test: only Close can end them
	full := limittest.Limiter(t, c, "full", shardlimit.PerHour(1))
	limittest.MustGet(t, full, 1)
	family := limittest.Family(t, c, "family", shardlimit.PerHour(100))
	key := family.Limiter("key")
	limittest.MustGet(t, key, 1)
	slot := mustAcquire(t, mustHave(t, c, "held", 2, time.Minute))
	calls := limittest.Opens(c, "another")
	maps.Copy(calls, map[string]func(context.Context) error{
		"in a line":       full.Wait,
		"a Set in a line": limittest.Set(1, key, full).Wait,
		"a key":           func(ctx context.Context) error { return limittest.Err(key.Allow(ctx)) },
		"a new key":       func(ctx context.Context) error { return limittest.Err(family.Limiter("new").Allow(ctx)) },
		"Family.SetLimit": func(ctx context.Context) error { return family.SetLimit(ctx, shardlimit.PerHour(1)) },
		"Extend":          slot.Extend,
	})
	for shards := 1; shards <= 2; shards++ {
		l := limittest.Limiter(t, c, fmt.Sprint(shards), shardlimit.Limit{Permits: 100, Per: time.Hour, Shards: shards})
		granted := limittest.MustGet(t, l, 1)
		for name, call := range limittest.Calls(l, 99, granted) {
			calls[fmt.Sprint(name, " on ", shards)] = call
		}
		calls[fmt.Sprint("a Set with a key on ", shards)] = limittest.Set(1, l, key).Wait
	}
	taken := func() int64 { return posts[0].Takes.Load() + posts[1].Takes.Load() }
	sent := taken()
	for _, p := range posts {
		p.Proxy.Stall(true)
	}
	type end struct {
		name string
		err  error
	}
	ends := make(chan end, 2*len(calls))
	for name, call := range calls {
		for range 2 { // the second waits behind the first
			go func() { ends <- end{name, call(context.Background())} }()
		}
	}
	limittest.AwaitThat(t, "calls are under way", func() bool { return taken() >= sent+3 })
	began := time.Now()
	c.Close()
	if took := time.Since(began); took > time.Minute {
		t.Errorf("Close took %s", took)
	}
	for range cap(ends) {
		select {
		case e := <-ends:
			limittest.ErrorIs(t, e.err, shardlimit.ErrClosed, e.name)
		case <-time.After(limittest.Patience):
			t.Fatal("a call goes on after Close")
		}
	}
	c.Close()
	for name, call := range calls {
		limittest.ErrorIs(t, call(t.Context()), shardlimit.ErrClosed, name, "after Close")
	}
}

func TestCloseEndsCallsOnAClientThatIsNotItsOwn(t *testing.T) {
	t.Parallel()
	fl, posts := limittest.Proxied(t, 1)
	option := fl.Nodes[0].Redis
	option.AlwaysPipelining = true
	option.ConnWriteTimeout, option.Dialer.KeepAlive = time.Hour, time.Hour // it will not give the connection up
	given, err := rueidis.NewClient(option)
	limittest.Must(t, err)
	defer given.Close()
	fl.Nodes = []shardlimit.Node{{Name: "n0", Client: given}}
	c := fl.Client(t, limittest.PatientFor(5*time.Minute))
	l := limittest.Limiter(t, c, "l", shardlimit.PerHour(10))
	granted, ctx := limittest.MustGet(t, l, 1), context.Background()
	posts[0].Proxy.Stall(true)
	calls := map[string]func() error{
		"Allow":    func() error { return limittest.Err(l.Allow(ctx)) },
		"Peek":     func() error { return limittest.Err(l.Peek(ctx)) },
		"Reset":    func() error { return l.Reset(ctx) },
		"Settle":   func() error { return l.Settle(ctx, granted, 0) },
		"SetLimit": func() error { return l.SetLimit(ctx, shardlimit.PerHour(20)) },
	}
	type end struct {
		name string
		err  error
	}
	ended := make(chan end, len(calls))
	// SetLimit may wait until the record was read for another call.
	sent := func() int64 { return posts[0].Takes.Load() + posts[0].Reads.Load() }
	for name, call := range calls {
		before := sent()
		go func() { ended <- end{name, call()} }()
		limittest.AwaitThat(t, name+" is sent", func() bool { return sent() > before || name == "SetLimit" })
	}
	c.Close()
	late := time.After(limittest.Patience)
	for range len(calls) {
		select {
		case e := <-ended:
			limittest.ErrorIs(t, e.err, shardlimit.ErrClosed, e.name)
			delete(calls, e.name)
		case <-late:
			t.Fatalf("after Close go on: %v", slices.Sorted(maps.Keys(calls)))
		}
	}
	posts[0].Proxy.Stall(false)
	if err := given.Do(t.Context(), given.B().Ping().Build()).Error(); err != nil {
		t.Errorf("the given client was closed: %v", err)
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
