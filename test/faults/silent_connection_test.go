package faults

import (
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// The connections of a process die without a word, as behind a gateway that forgets them, while new
// ones would be served: these take their place within seconds.
func TestConnectionsThatFellSilentAreReplaced(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	gateway := redistest.NewProxy(t, server.Addr())
	address := redistest.NewProxy(t, gateway.Addr())
	o := server.ClientOption()
	o.InitAddress = []string{address.Addr()}
	f := limittest.Fleet{Nodes: []shardlimit.Node{{Name: "n", Redis: o}}, Prefix: redistest.Prefix(t), Punctual: true}
	l := limittest.Limiter(t, f.Client(t), "l", shardlimit.PerMinute(1e6))
	serves := func() bool {
		d, err := l.Allow(t.Context())
		return err == nil && d.Allowed
	}
	limittest.AwaitThat(t, "it serves", serves)
	gateway.Stall(true)
	defer gateway.Stall(false)
	address.Lead(server.Addr())
	limittest.AwaitWithin(t, 30*time.Second, "a new connection serves", serves)
}

// A whole cluster is replaced behind the one address that a process knows, and no master of before
// is left, as when all its pods begin anew.
func TestAClusterThatIsReplacedIsFound(t *testing.T) {
	t.Parallel()
	before, after := redistest.NewCluster(t, 3, 0), redistest.NewCluster(t, 3, 0)
	address := redistest.NewProxy(t, before.Addrs()[0])
	o := before.ClientOption()
	o.InitAddress = []string{address.Addr()}
	f := limittest.Fleet{Nodes: []shardlimit.Node{{Name: "c", Redis: o}}, Prefix: redistest.Prefix(t), Punctual: true}
	limit := shardlimit.Limit{Permits: 1e6, Per: time.Hour} // the policy after a loss is to go on
	l := limittest.Limiter(t, f.Client(t), "l", limit)
	serves := func() bool {
		d, err := l.Allow(t.Context())
		return err == nil && d.Allowed
	}
	limittest.AwaitThat(t, "it serves", serves)
	for _, s := range before.Servers() {
		s.Kill()
	}
	address.Cut()
	limittest.AwaitThat(t, "none serves", func() bool { return !serves() })
	address.Lead(after.Addrs()[0])
	limittest.AwaitThat(t, "the new cluster serves", serves)
}
