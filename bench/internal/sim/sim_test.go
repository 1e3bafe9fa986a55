package sim

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/internal/extent"
	"github.com/shardlimit/shardlimit/shard"
)

// quiet is a fleet in which nothing is scarce.
func quiet(processes, nodes, shards int) Config {
	c := Config{
		Seed: 1, Limit: "l", Permits: 1e9, Window: time.Second, Shards: shards,
		Route:   Route{Preferred: 2},
		Network: Network{Delay: 100 * time.Microsecond},
		Server:  Server{Script: 20 * time.Microsecond},
		Warm:    100 * time.Millisecond, For: time.Second,
	}
	for i := range nodes {
		c.Nodes = append(c.Nodes, shard.Node{Name: fmt.Sprintf("node-%d", i)})
	}
	for i := range processes {
		c.Participants = append(c.Participants, fmt.Sprintf("participant-%d", i))
	}
	return c
}

// asking gives every process the same demand; all of them together ask for so many decisions a
// second.
func asking(c Config, rate float64) Config {
	c.Demand = slices.Repeat([]float64{rate / float64(len(c.Participants))}, len(c.Participants))
	return c
}

func run(t *testing.T, c Config) *Result {
	t.Helper()
	r, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func near(t *testing.T, what string, got, want, part float64) {
	t.Helper()
	if math.Abs(got-want) > part*want {
		t.Errorf("%s is %v, want %v within %v", what, got, want, part*want)
	}
}

func TestLoneCallsGoOutAtOnce(t *testing.T) {
	r := run(t, asking(quiet(1, 1, 1), 100))
	if r.AllCalls() < r.Allowed || r.Denied != 0 {
		t.Errorf("%d calls, %d allowed, %d denied", r.AllCalls(), r.Allowed, r.Denied)
	}
	near(t, "the median latency", r.Latency.Quantile(0.5).Seconds(), 220e-6, 0.04)
}

func TestDemandIsServed(t *testing.T) {
	for _, rate := range []float64{2_000, 200_000} { // alone, and in batches
		r := run(t, asking(quiet(20, 4, 4), rate))
		near(t, "the rate", r.PerSecond(), rate, 5/math.Sqrt(rate))
	}
}

// TestSaturated checks the two laws that a closed loop follows: a node does as
// many calls as it can, and a call carries what waits for it.
func TestSaturated(t *testing.T) {
	for _, c := range []struct {
		rejoin, batch float64
	}{
		{0, 8}, // whoever comes back first sets off alone: batches of 1 and 15 alternate
		{0.5, 16 / 1.5},
		{1, 16},
	} {
		cfg := quiet(24, 3, 3)
		cfg.Callers, cfg.Route.Rejoin = 32, c.rejoin
		cfg.For = extent.Some(cfg.For)
		r := run(t, cfg)
		near(t, "calls a second", float64(r.AllCalls())/cfg.For.Seconds(), 3*50_000, 0.02)
		near(t, "the batch", r.Batch(), c.batch, 0.05)
	}
}

func TestQuota(t *testing.T) {
	cfg := quiet(8, 1, 1)
	cfg.Callers = 4
	cfg.Server.Quota, cfg.Server.Period = time.Millisecond, 20*time.Millisecond
	r := run(t, cfg)
	near(t, "calls a second", float64(r.AllCalls()), 2_500, 0.02)
	if p99 := r.Latency.Quantile(0.99); p99 < 15*time.Millisecond {
		t.Errorf("the 99th percentile is %v, but nodes stand still for 19 ms", p99)
	}
}

// TestUnevenNodes: of nodes that are all at their end, each serves the more calls the less one
// costs it.
func TestUnevenNodes(t *testing.T) {
	cfg := asking(quiet(90, 3, 3), 1_000_000)
	cfg.Server.Uneven = []float64{0.5, 1, 2}
	cfg.For = extent.Some(cfg.For)
	r := run(t, cfg)
	for i, want := range []float64{100_000, 50_000, 25_000} {
		near(t, fmt.Sprintf("calls a second of node %d", i), float64(r.Calls[i])/cfg.For.Seconds(), want, 0.02)
	}
}

func TestServe(t *testing.T) {
	plain := node{script: 10}
	for _, want := range []int64{15, 25} {
		if got := plain.serve(5, 0); got != want {
			t.Errorf("served at %d, want %d", got, want)
		}
	}
	capped := node{script: 10, quota: 15, period: 100, which: -1}
	var got []int64
	for range 4 {
		got = append(got, capped.serve(90, 0))
	}
	// 10 of 15 at 90..100; then 5 more of that period are lost with it: the next one begins at 100.
	if want := []int64{100, 110, 205, 215}; !slices.Equal(got, want) {
		t.Errorf("served at %v, want %v", got, want)
	}
}

func TestOverload(t *testing.T) {
	cfg := asking(quiet(50, 4, 4), 100_000)
	cfg.Permits, cfg.Warm, cfg.For = 10_000, 2*time.Second, 3*time.Second
	r := run(t, cfg)
	if most := 4 * cfg.Permits; r.Granted > most {
		t.Errorf("%d permits in 3 s, at most %d are allowed", r.Granted, most)
	}
	near(t, "the use of the limit", float64(r.Granted)/3, 10_000, 0.03)
	near(t, "the demand", r.PerSecond(), 100_000, 0.02)
	if part := float64(r.Local) / float64(r.Denied); part < 0.5 {
		t.Errorf("only %v of the denials come from memory", part)
	}
	if r.Stranded < 0 || r.Stranded > 0.05*float64(r.Denied) {
		t.Errorf("%v of %d denials were wrong", r.Stranded, r.Denied)
	}
}

// TestWhatIsKnownIsNotAsked: a process that was told when to come back does not ask before, nor do
// those of its calls that were waiting when it was told.
func TestWhatIsKnownIsNotAsked(t *testing.T) {
	c := asking(quiet(4, 1, 1), 20_000)
	c.Permits, c.Warm = 200, 2*time.Second
	r := run(t, c)
	if r.Granted < 190 || r.Vain > r.AllCalls()/10 {
		t.Errorf("%d permits granted, %d calls, %d of them in vain", r.Granted, r.AllCalls(), r.Vain)
	}
}

// TestFairParts: one process that wants half of twice the limit does not starve the others.
func TestFairParts(t *testing.T) {
	cfg := quiet(10, 4, 4)
	cfg.Permits, cfg.Warm, cfg.For = 20_000, 2*time.Second, 4*time.Second
	cfg.Demand = slices.Repeat([]float64{20_000. / 9}, 10)
	cfg.Demand[0] = 20_000
	cfg.Route = AsBuilt()
	r := run(t, cfg)
	for i, got := range r.Got {
		near(t, fmt.Sprintf("what process %d has got", i), float64(got), 4*20_000/10, 0.05)
	}
	if r.Granted > 5*cfg.Permits {
		t.Errorf("%d permits in 4 s", r.Granted)
	}
}

// TestCandidates: a call goes to the first ones of the order, or to all that are left.
func TestCandidates(t *testing.T) {
	p := &process{order: []uint8{3, 1, 0, 2}, lanes: make([]*lane, 4), all: 1<<4 - 1}
	if got, spills := p.candidates(0, 0, 2, nil); spills || !slices.Equal(got, []int{0, 1}) {
		t.Errorf("at first %v, spills: %v", got, spills)
	}
	if got, spills := p.candidates(0, 1<<0, 2, nil); !spills || !slices.Equal(got, []int{1, 2, 3}) {
		t.Errorf("refused by the first: %v, spills: %v", got, spills)
	}
	p.lane(1).notBefore = 10
	p.close(1, 0)
	if got, spills := p.candidates(5, 0, 2, nil); !spills || !slices.Equal(got, []int{0, 2, 3}) {
		t.Errorf("while its part of the second is used up: %v, spills: %v", got, spills)
	}
	if _, spills := p.candidates(10, 0, 2, nil); spills {
		t.Error("what is over is remembered")
	}
}

func TestEqualSeedsEqualResults(t *testing.T) {
	cfg := asking(quiet(30, 5, 10), 50_000)
	cfg.Network.Jitter = 50 * time.Microsecond
	cfg.Permits = 20_000
	one, two := run(t, cfg), run(t, cfg)
	if !reflect.DeepEqual(one, two) {
		t.Error("two runs of one seed differ")
	}
	cfg.Seed++
	if three := run(t, cfg); three.Allowed == one.Allowed && slices.Equal(three.Calls, one.Calls) {
		t.Error("another seed makes no difference")
	}
}

func TestFillIsOneByOne(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		loads := make([]int64, 1+rng.IntN(5))
		for i := range loads {
			loads[i] = rng.Int64N(8)
		}
		n := rng.Int64N(30)
		got, want := make([]int64, len(loads)), make([]int64, len(loads))
		fill(loads, n, got)
		for range n {
			best := 0
			for i := range loads {
				if loads[i]+want[i] < loads[best]+want[best] {
					best = i
				}
			}
			want[best]++
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%d over %v: %v, one by one %v", n, loads, got, want)
		}
	}
}

func TestBoardKeepsTheOrder(t *testing.T) {
	l := &lane{}
	l.enqueue(asks{n: 3, from: 0, to: 30})
	l.enqueue(asks{n: 2, from: 50, to: 50})
	l.board(1)
	if l.inFlight != 1 || l.waiting != 4 || l.flying[0].to != 10 || l.pending[0].from != 10 {
		t.Errorf("after one: %+v", l)
	}
	l.board(math.MaxInt64)
	if l.inFlight != 4 || l.waiting != 0 || len(l.flying) != 2 || l.flying[0].n != 2 || l.load() != 4 {
		t.Errorf("after all: %+v", l)
	}
}

func TestAgenda(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var a agenda
	var want []int64
	for range 1000 {
		at := rng.Int64N(500)
		want = append(want, at)
		a.put(event{at: at})
	}
	slices.Sort(want)
	for i, at := range want {
		if e, ok := a.next(); !ok || e.at != at {
			t.Fatalf("event %d is at %d, want %d", i, e.at, at)
		}
	}
	if _, ok := a.next(); ok {
		t.Error("an empty agenda has an event")
	}
}

func TestPoisson(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, mean := range []float64{0.3, 7} {
		var sum, squares float64
		const draws = 50_000
		for range draws {
			n := float64(poisson(rng, mean))
			sum, squares = sum+n, squares+n*n
		}
		near(t, "the mean", sum/draws, mean, 0.03)
		near(t, "the variance", squares/draws-sum*sum/draws/draws, mean, 0.05)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, asking(quiet(3, 2, 2), 10)); !errors.Is(err, context.Canceled) {
		t.Errorf("err %v", err)
	}
}

// TestTimeout overloads a node so that calls wait for longer than a client would.
func TestTimeout(t *testing.T) {
	cfg := quiet(500, 1, 1)
	cfg.Callers, cfg.Timeout = 2, 10*time.Millisecond // 500 calls of 20 us in a row: 10 ms
	r := run(t, cfg)
	if r.Late == 0 || r.Overdue == 0 {
		t.Errorf("%d calls were late, %d script calls overdue", r.Late, r.Overdue)
	}
	cfg.Timeout = time.Second
	if r := run(t, cfg); r.Late+r.Overdue != 0 {
		t.Errorf("%d calls were late, %d script calls overdue, in spite of patience", r.Late, r.Overdue)
	}
}

// TestTurns has few processes ask little: idle calls reach every node as often.
func TestTurns(t *testing.T) {
	c := asking(quiet(5, 12, 12), 2000)
	c.For = 2 * time.Second
	if r := run(t, c); r.Busiest() < 1.5 {
		t.Errorf("ten of twelve nodes are preferred by somebody, yet the busiest has only %.2f times the mean",
			r.Busiest())
	}
	c.Route = AsBuilt()
	if r := run(t, c); r.Busiest() > 1.2 {
		t.Errorf("with a rotation the busiest node has %.2f times the mean: %v", r.Busiest(), r.Calls)
	}
}

// TestFarTooMuch asks for far more than there is: what is there is used, and a call in vain is
// rare.
func TestFarTooMuch(t *testing.T) {
	for _, c := range []struct {
		processes, shards int
		permits           int64
		times, use, calls float64
	}{
		{4, 1, 200, 100, 0.985, 1.1},
		{4, 4, 200, 100, 0.99, 1.12},
		{8, 16, 480, 3, 0.98, 1.32},
	} {
		cfg := asking(quiet(c.processes, c.shards, c.shards), c.times*float64(c.permits))
		cfg.Permits, cfg.Route, cfg.Network.Jitter = c.permits, AsBuilt(), cfg.Network.Delay
		cfg.Warm, cfg.For = 2*time.Second, 10*time.Second
		r := run(t, cfg)
		use, calls := float64(r.Granted)/10/float64(c.permits), float64(r.AllCalls())/float64(r.Granted)
		t.Logf("%d permits on %d shards, %v times as many asked for: use %.4f, %.2f calls for each", c.permits,
			c.shards, c.times, use, calls)
		if use < c.use || calls > c.calls {
			t.Error("permits are wasted, or calls are in vain")
		}
	}
}

func TestInvalidConfigs(t *testing.T) {
	for name, spoil := range map[string]func(*Config){
		"shards":    func(c *Config) { c.Shards = MaxShards + 1 },
		"permits":   func(c *Config) { c.Permits = 0 },
		"nodes":     func(c *Config) { c.Nodes = nil },
		"both":      func(c *Config) { c.Callers = 1 },
		"neither":   func(c *Config) { c.Demand = nil },
		"NaN":       func(c *Config) { c.Demand[0] = math.NaN() },
		"demand":    func(c *Config) { c.Demand = c.Demand[1:] },
		"preferred": func(c *Config) { c.Route.Preferred = 0 },
		"rotation":  func(c *Config) { c.Route.Rotation = -1 },
		"rejoin":    func(c *Config) { c.Route.Rejoin = 1.1 },
		"script":    func(c *Config) { c.Server.Script = 0 },
		"contended": func(c *Config) { c.Server.Contended = -1 },
		"quota":     func(c *Config) { c.Server.Period = 1 },
		"uneven":    func(c *Config) { c.Server.Uneven = []float64{1} },
		"free":      func(c *Config) { c.Server.Uneven = []float64{1, 0} },
	} {
		c := asking(quiet(3, 2, 2), 10)
		spoil(&c)
		if _, err := Run(t.Context(), c); !errors.Is(err, ErrInvalidConfig) {
			t.Errorf("%s: err %v", name, err)
		}
	}
}
