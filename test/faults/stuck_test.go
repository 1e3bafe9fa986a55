package faults

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/race"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// deaf is a Redis client that takes no notice of contexts: its next calls of a
// script may hang until the test ends.
type deaf struct {
	rueidis.Client
	hang    atomic.Int64 // how many
	release chan struct{}
}

func (d *deaf) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	// a record is read in the background
	asksAShard := slices.Contains([]string{"EVALSHA", "EVAL"}, cmd.Commands()[0]) &&
		!limittest.IsOfARecord(cmd.Commands()[3])
	if asksAShard && d.hang.Add(-1) >= 0 {
		<-d.release
		ctx = context.Background()
	}
	return d.Client.Do(ctx, cmd)
}

// A script call that does not come back, although its time is up, holds up
// neither the callers it carries nor those that come after it.
func TestALostCallDoesNotBlockItsShard(t *testing.T) {
	s := redistest.Standalone(t)
	d := &deaf{Client: s.Client(t), release: make(chan struct{})}
	d.hang.Store(-1 << 40)
	f := limittest.Fleet{Nodes: []shardlimit.Node{{Name: "solo", Client: d}}, Prefix: redistest.Prefix(t)}
	l := f.Limiter(t,
		shardlimit.Limit{Permits: 100, Per: time.Minute, Shards: 1}, limittest.PatientFor(200*time.Millisecond))
	t.Cleanup(func() { close(d.release) }) // before the client is closed
	limittest.AwaitThat(t, "it is served in time", func() bool { return serves(t, l) })
	d.hang.Store(1)
	if a, err := l.Allow(t.Context()); err == nil {
		t.Fatalf("a call that hangs was answered: %+v", a)
	}
	// One that comes while the call that hangs is still being given up may be denied with those
	// behind it, and a busy machine may let others be late.
	begun, served := time.Now(), false
	for i := 0; i < 20 && !served; i++ {
		served = serves(t, l)
	}
	if took := time.Since(begun); !served || took > limittest.Patience {
		t.Errorf("the next calls are served after %s: %t", took, served)
	}
}

// What was collected in vain is given back by nodes that are as slow as a call allows them to be.
func TestWhatWasCollectedInVainIsGivenBackLate(t *testing.T) {
	limittest.InBubble(t, 4, func(t *testing.T, f limittest.Fleet) {
		f, _ = f.Distant(t, 700*time.Millisecond)
		l := f.Limiter(t,
			shardlimit.Limit{Permits: 40, Per: time.Hour, Shards: 4}, limittest.PatientFor(limittest.Patience))
		limittest.MustGet(t, l, 20)
		limittest.Denied(t, l, 30)
		limittest.Uses(t, l, 20)
	})
}

// One of the nodes that keep a family's record stalls. Whatever the call timeout is, new keys on
// other nodes are served at once.
func TestStragglersAreNotWaitedFor(t *testing.T) {
	for i, timeout := range []time.Duration{100 * time.Millisecond, time.Second, 2 * time.Second, 6 * time.Second,
		20 * time.Second} {
		for place := range 3 {
			if race.Enabled && place != i%3 {
				continue // what differs is when
			}
			t.Run(fmt.Sprint(timeout, " place ", place), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { straggler(t, timeout, place) })
			})
		}
	}
}

func straggler(t *testing.T, timeout time.Duration, place int) {
	fl := limittest.Bubbled(t, 5)
	c := fl.Client(t, limittest.PatientFor(timeout))
	users := limittest.Family(t, c, "users", shardlimit.PerMinute(10))
	stalls := limittest.RecordNodes(c)[place]
	home := func(key string) string { return limittest.Peek(t, users.Limiter(key)).Shards[0].Node }
	time.Sleep(5 * time.Minute) // their memory is whole
	_, _ = users.Limiter("first").Allow(t.Context())
	var keys []string
	for i := 0; len(keys) < 300; i++ {
		if key := fmt.Sprint("user ", i); home(key) != stalls {
			keys = append(keys, key)
		}
	}
	fl.Bubble[fl.Index(stalls)].Paused.Store(time.Now().Add(time.Minute).UnixNano())
	bad, slowest := 0, time.Duration(0)
	for _, key := range keys {
		begun := time.Now()
		if !serves(t, users.Limiter(key)) {
			bad++
		}
		slowest = max(slowest, time.Since(begun))
		time.Sleep(100 * time.Millisecond)
	}
	time.Sleep(3 * time.Minute) // it goes on
	if bad > 0 || slowest > 250*time.Millisecond {
		t.Errorf("%d of %d new keys were not served, the slowest call took %v", bad, len(keys), slowest)
	}
}

// behind is a fleet of one node that a process knows by the address of a proxy.
func behind(t *testing.T, o rueidis.ClientOption, proxy *redistest.Proxy) limittest.Fleet {
	t.Helper()
	o.InitAddress = []string{proxy.Addr()}
	f := of(t, o)
	f.Punctual = true
	return f
}

// The connections of a process die without a word, as behind a gateway that forgets them, while new
// ones would be served: these take their place within seconds.
func TestConnectionsThatFellSilentAreReplaced(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	gateway := redistest.NewProxy(t, server.Addr())
	address := redistest.NewProxy(t, gateway.Addr())
	l := behind(t, server.ClientOption(), address).Limiter(t, shardlimit.PerMinute(1e6))
	does := func() bool { return serves(t, l) }
	limittest.AwaitThat(t, "it serves", does)
	gateway.Stall(true)
	defer gateway.Stall(false)
	address.Lead(server.Addr())
	limittest.AwaitWithin(t, 30*time.Second, "a new connection serves", does)
}

// A whole cluster is replaced behind the one address that a process knows, and no master of before
// is left, as when all its pods begin anew.
func TestAClusterThatIsReplacedIsFound(t *testing.T) {
	t.Parallel()
	before, after := redistest.NewCluster(t, 3, 0), redistest.NewCluster(t, 3, 0)
	address := redistest.NewProxy(t, before.Addrs()[0])
	// An hour: the policy after a loss is to go on.
	l := behind(t, before.ClientOption(), address).Limiter(t, shardlimit.PerHour(1e6))
	does := func() bool { return serves(t, l) }
	limittest.AwaitThat(t, "it serves", does)
	for _, s := range before.Servers() {
		s.Kill()
	}
	address.Cut()
	limittest.AwaitThat(t, "none serves", func() bool { return !does() })
	address.Lead(after.Addrs()[0])
	limittest.AwaitThat(t, "the new cluster serves", does)
}
