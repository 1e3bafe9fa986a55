package shardlimit_test

import (
	"context"
	"errors"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

func TestParseNodes(t *testing.T) {
	nodes, err := shardlimit.ParseNodes(" redis-a:6379 ,eu=redis-b,rediss://ann:s%40cret@redis-c:7000/2")
	if err != nil || len(nodes) != 3 {
		t.Fatalf("%+v, %v", nodes, err)
	}
	if a := nodes[0]; a.Redis.TLSConfig != nil || !a.Redis.ForceSingleClient {
		t.Errorf("%+v", a)
	}
	if c := nodes[2]; c.Redis.InitAddress[0] != "redis-c:7000" || c.Redis.Username != "ann" ||
		c.Redis.Password != "s@cret" ||
		c.Redis.SelectDB != 2 || c.Redis.TLSConfig == nil {
		t.Errorf("%+v", c)
	}
}

var whatToDo = regexp.MustCompile("; (write host:port|list )")

// What is wrong with an address is told with what to write, and without a password.
func TestParseNodesTellsWhatToWrite(t *testing.T) {
	for _, bad := range []string{
		"127.0.0.1:1;127.0.0.1:2", "127.0.0.1:1 127.0.0.1:2", "redis://ann:secret@a:1;redis://ann:secret@b:2",
		"::1", "::1:31001", "redis://2001:db8::1:1", "/tmp/x.sock", "=127.0.0.1:1", "host:port:port",
		"redis://10.0.0.1:1:2", "ann:secret%zz@a", "redis://ann:top;secret/ret@a:1", "redis://:my secret?word@a:1",
		"a:6379,,b:6379", "http://a", "redis://ann:secret@%zz", "redis://a:1?addr=b:2", "redis-a:0", "redis-a:65536",
		"redis://::1:6379", "redis://ann:secret@a/-1", "redis://ann:secret@a:99999",
	} {
		nodes, err := shardlimit.ParseNodes(bad)
		if !errors.Is(err, shardlimit.ErrInvalidConfig) || nodes != nil || strings.ContainsAny(err.Error(), "\n") ||
			!whatToDo.MatchString(err.Error()) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, %v", bad, nodes, err)
		}
	}
}

// A name may be an address; what looks like one in a URL or before a password is none.
func TestParseNodesFindsNames(t *testing.T) {
	for list, want := range map[string][2]string{
		"127.0.0.1:7001=localhost:7001":            {"127.0.0.1:7001", "localhost:7001"},
		"[::1]:7001=redis://ann:pw@localhost:7001": {"[::1]:7001", "localhost:7001"},
		"eu=localhost":                   {"eu", "localhost:6379"},
		"ann:12=34@localhost:7001":       {"", "localhost:7001"},
		"redis://ann:p=w@localhost:7001": {"", "localhost:7001"},
	} {
		nodes, err := shardlimit.ParseNodes(list)
		if err != nil || len(nodes) != 1 || nodes[0].Name != want[0] || nodes[0].Redis.InitAddress[0] != want[1] {
			t.Errorf("%s: %+v, %v", list, nodes, err)
		}
	}
	_, err := shardlimit.ParseNodes(" ")
	if err == nil || err.Error() !=
		"shardlimit: invalid config: the list of nodes is empty; write redis-a:6379,redis-b:6379" {
		t.Errorf("got %v", err)
	}
}

func TestNewRefusesAConfigThatCannotWork(t *testing.T) {
	type change = func(*shardlimit.Config, *shardlimit.Node)
	at := func(addresses ...string) change {
		return func(_ *shardlimit.Config, n *shardlimit.Node) { n.Redis.InitAddress = addresses }
	}
	weight := func(w float64) change { return func(_ *shardlimit.Config, n *shardlimit.Node) { n.Weight = w } }
	with := func(do func(c *shardlimit.Config)) change {
		return func(c *shardlimit.Config, _ *shardlimit.Node) { do(c) }
	}
	long := strings.Repeat("p", shardlimit.MaxName+1)
	for name, change := range map[string]change{
		"no nodes":        with(func(c *shardlimit.Config) { c.Nodes = nil }),
		"no host or port": at("10.0.0.1:6379", "10.0.0.2"),
		"empty address":   at(""),
		"no port":         at("localhost:"),
		"a URL":           at("redis://localhost:6379"),
		"path":            at("/r.sock"),
		"no address":      at(),
		"NaN":             weight(math.NaN()),
		"infinite weight": weight(math.Inf(1)),
		"long node name":  func(_ *shardlimit.Config, n *shardlimit.Node) { n.Name = long },
		"two clients":     func(_ *shardlimit.Config, n *shardlimit.Node) { n.Client = limittest.RefuseAll{TB: t} },
		"nameless client": func(_ *shardlimit.Config, n *shardlimit.Node) {
			*n = shardlimit.Node{Client: limittest.RefuseAll{TB: t}}
		},
		"same names":         with(func(c *shardlimit.Config) { c.Nodes = append(c.Nodes, c.Nodes[0]) }),
		"negative processes": with(func(c *shardlimit.Config) { c.Participants = -1 }),
		"open brace":         with(func(c *shardlimit.Config) { c.KeyPrefix = "a{" }),
		"closing brace":      with(func(c *shardlimit.Config) { c.KeyPrefix = "}a" }),
		"long prefix":        with(func(c *shardlimit.Config) { c.KeyPrefix = long }),
		"participant":        with(func(c *shardlimit.Config) { c.Participant = strings.Repeat("p", 1<<20) }),
		"negative time":      with(func(c *shardlimit.Config) { c.CallTimeout = -time.Second }),
		"short time":         with(func(c *shardlimit.Config) { c.CallTimeout = time.Microsecond }),
		"outage policy":      with(func(c *shardlimit.Config) { c.OnOutage = 99 }),
		"loss policy":        with(func(c *shardlimit.Config) { c.AfterLoss = 99 }),
	} {
		cfg := shardlimit.Config{Nodes: []shardlimit.Node{
			{Name: "n", Redis: rueidis.ClientOption{InitAddress: []string{"127.0.0.1:1"}}}}}
		change(&cfg, &cfg.Nodes[0])
		limittest.ErrorIs(t, limittest.Err(shardlimit.New(cfg)), shardlimit.ErrInvalidConfig, name)
	}
}

func TestCallsForImpossiblePermitsSendNothing(t *testing.T) {
	fl, posts := limittest.Proxied(t, 1)
	l := limittest.Limiter(t, fl.Client(t), "l", shardlimit.PerSecond(10))
	sent := posts[0].Takes.Load()
	refused := func(n int64, want error, names ...string) {
		calls := limittest.Calls(l, n, shardlimit.Decision{})
		for _, name := range names {
			limittest.ErrorIs(t, calls[name](t.Context()), want, name, n)
		}
	}
	for _, n := range []int64{0, -1, math.MinInt64, shardlimit.MaxPermits + 1, math.MaxInt64} {
		refused(n, shardlimit.ErrInvalidPermits, "AllowN", "AllowUpTo", "WaitN", "Reserve")
	}
	for _, n := range []int64{11, shardlimit.MaxPermits} {
		refused(n, shardlimit.ErrExceedsLimit, "AllowN", "WaitN", "Reserve")
	}
	if n := posts[0].Takes.Load() - sent; n != 0 {
		t.Errorf("%d script calls", n)
	}
}

// The zero Set is the empty one, and the zero Reservation is of no permits.
func TestZeroValuesAreOfUse(t *testing.T) {
	var s shardlimit.Set
	d, err := s.Allow(t.Context())
	if err != nil || !d.Allowed || d.Granted != 0 || len(s.Each(d)) != 0 {
		t.Errorf("the empty Set: %+v, %v", d, err)
	}
	limittest.Must(t, errors.Join(s.Wait(t.Context()), s.Settle(t.Context(), d)))
	var r shardlimit.Reservation
	if r.Permits() != 0 || r.Degraded() || r.Shadowed() {
		t.Error("permits were reserved")
	}
}

// eager is a provider of metrics that reads them as soon as it hears of them.
type eager struct{ noop.MeterProvider }

func (eager) Meter(string, ...metric.MeterOption) metric.Meter { return eagerMeter{} }

type eagerMeter struct{ noop.Meter }

func (eagerMeter) RegisterCallback(read metric.Callback, _ ...metric.Observable) (metric.Registration, error) {
	return noop.Registration{}, read(context.Background(), noop.Observer{})
}

// Metrics may be read before New has returned.
func TestMetricsAreReadDuringNew(t *testing.T) {
	c, err := shardlimit.New(shardlimit.Config{MeterProvider: eager{}, Nodes: []shardlimit.Node{
		{Redis: rueidis.ClientOption{InitAddress: []string{"127.0.0.1:1"}}}}})
	limittest.Must(t, err)
	c.Close()
}
