package scenario

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/hist"
	"github.com/shardlimit/shardlimit/bench/internal/load"
	"github.com/shardlimit/shardlimit/bench/internal/report"
	"github.com/shardlimit/shardlimit/bench/internal/rival"
	"github.com/shardlimit/shardlimit/bench/internal/server"
)

var keys = Scenario{
	Name:  "keys",
	Title: "a limit for each of many keys",
	Takes: 150 * time.Second,
	Question: `One process, one server, and a limit for each key, as a gateway has one for each of
its users. Callers pick keys at random, from all alike or from a few more often (Zipf, 1.1), and
call for one permit. The limit is so large that nobody reaches it, or a single permit for an hour, so
that nearly every call is denied. ` + "`script`" + ` is our own Lua script called once per decision
through rueidis. Ratios are those of the same round. Bytes of a key are what the process and the
server need more after each of so many keys was called once.`,
	Run: runKeys,
}

// keysCase is one way to use many keys.
type keysCase struct {
	name    string
	keys    int
	zipf    bool
	denied  bool
	callers []int
}

var keysCases = []keysCase{
	{name: "50k keys", keys: 50_000, callers: []int{1, 4, 64, 1000}},
	{name: "1M keys", keys: 1_000_000, callers: []int{1, 4, 64, 1000}},
	{name: "50k keys by Zipf", keys: 50_000, zipf: true, callers: []int{64, 1000}},
	{name: "50k keys denied", keys: 50_000, denied: true, callers: []int{64, 1000}},
	{name: "100 keys", keys: 100, callers: []int{1000}},
	{name: "1 key", keys: 1, callers: []int{1000}},
}

const (
	keysRounds = 3
	keysSpan   = 800 * time.Millisecond
	keysSample = 16     // of so many calls one is timed
	keysSized  = 30_000 // keys whose bytes are counted: of twice as many none is forgotten
)

func keysCaseNames() (names []string) {
	for _, c := range keysCases {
		names = append(names, c.name)
	}
	return names
}

// keysRound is what one rival did in one round of a case.
type keysRound struct {
	sample load.Sample
	server server.Usage
	took   *hist.Hist
}

func runKeys(ctx context.Context, env Env, result *report.Result) error {
	cases := keysCases
	if env.Smoke {
		cases = []keysCase{{name: "100 keys", keys: 100, callers: []int{64}}}
	}
	if len(env.Cases) > 0 {
		cases = slices.DeleteFunc(slices.Clone(cases),
			func(c keysCase) bool { return !slices.Contains(env.Cases, c.name) })
		if len(cases) == 0 {
			return fmt.Errorf("none of the cases %q; there are %s", env.Cases, strings.Join(keysCaseNames(), "; "))
		}
	}
	rounds, span := env.rounds(keysRounds), env.span(50*time.Millisecond, keysSpan)
	setting(result, "Limit", "%s permits per second for each key, never reached; denied: 1 per hour",
		report.Count(float64(exactLimit.Permits)))
	setting(result, "Rounds", "%d of %s for each point, after %s to warm up", rounds, span, span/4)
	for _, c := range cases {
		if err := c.run(ctx, env, result, rounds, span); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		env.Progress("%s done", c.name)
	}
	result.Views = append(result.Views,
		report.View{Metric: "bytes", Title: "Bytes of a key that was called once, in the process", Unit: "bytes",
			X: "keys"},
		report.View{Metric: "bytes-redis", Title: "Bytes of a key that was called once, in Redis", Unit: "bytes",
			X: "keys"})
	sized := keysSized
	if env.Smoke {
		sized = 500
	}
	for _, r := range env.Rivals {
		if err := keysSize(ctx, env, result, r, sized); err != nil {
			result.Remark("The bytes of a key of %s could not be counted: %v.", r.Name, err)
		}
	}
	return nil
}

// run measures the rivals in turns. Each case has a server of its own.
func (c keysCase) run(ctx context.Context, env Env, result *report.Result, rounds int, span time.Duration) error {
	for _, m := range []report.View{
		{Metric: "rate", Title: "Decisions per second", Unit: "decisions/s", Plot: true, LogX: true, LogY: true},
		{Metric: "ratio", Title: "Times redis_rate"},
		{Metric: "cpu", Title: "Client CPU per decision", Unit: "us"},
		{Metric: "server-cpu", Title: "Server CPU per decision", Unit: "us"},
		{Metric: "script", Title: "Time in scripts per decision", Unit: "us"},
		{Metric: "calls", Title: "Script calls per decision", Unit: "calls"},
		{Metric: "p50", Title: "Median latency", Unit: "us"},
		{Metric: "p99", Title: "99th percentile of latency", Unit: "us"},
	} {
		m.Metric, m.Title, m.X = c.name+" "+m.Metric, m.Title+", "+c.name, "callers"
		result.Views = append(result.Views, m)
	}
	s, err := env.start(ctx, result)
	if err != nil {
		return err
	}
	defer s.Close()
	limit := exactLimit
	if c.denied {
		limit = rival.Limit{Permits: 1, Per: time.Hour}
	}
	rivals, allow, end, err := openKeys(ctx, env.Rivals, s, limit)
	defer end()
	if err != nil {
		return err
	}
	pick := c.picker()
	for _, callers := range c.callers {
		done := make([][]keysRound, len(rivals))
		for round := range rounds {
			for _, i := range rotated(len(rivals), round) {
				r, err := measureKeys(ctx, s, allow[i], pick, load.Plan{Goroutines: callers, Warm: span / 4, For: span})
				if err != nil {
					return fmt.Errorf("%s with %d callers: %w", rivals[i].Name, callers, err)
				}
				done[i] = append(done[i], r)
			}
		}
		c.add(result, rivals, callers, done)
	}
	return nil
}

// openKeys opens the rivals that have limits for keys.
func openKeys(ctx context.Context, all []rival.Rival, s *server.Server, limit rival.Limit) (rivals []rival.Rival,
	allow []rival.AllowKey, end func(), err error) {
	var handles []rival.Handle
	end = func() { closeAll(handles) }
	for _, r := range all {
		h, err := r.Open(ctx, s.Addr(), limit)
		if err != nil {
			return nil, nil, end, fmt.Errorf("open %s: %w", r.Name, err)
		}
		handles = append(handles, h)
		one, err := rival.Keys(ctx, h, "users")
		if err != nil {
			return nil, nil, end, fmt.Errorf("open %s: %w", r.Name, err)
		}
		if one != nil {
			rivals, allow = append(rivals, r), append(allow, one)
		}
	}
	return rivals, allow, end, nil
}

// picker returns what picks the key of a call. It may be called by any number of goroutines.
func (c keysCase) picker() func() string {
	names := make([]string, c.keys)
	for i := range names {
		names[i] = "user " + strconv.Itoa(i)
	}
	if !c.zipf {
		return func() string { return names[rand.IntN(len(names))] }
	}
	draw := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 1, uint64(c.keys-1))
	drawn := make([]string, 1<<20)
	for i := range drawn {
		drawn[i] = names[draw.Uint64()]
	}
	return func() string { return drawn[rand.IntN(len(drawn))] }
}

func measureKeys(ctx context.Context, s *server.Server, allow rival.AllowKey, pick func() string,
	plan load.Plan) (keysRound, error) {
	round := keysRound{took: &hist.Hist{}}
	var before, after server.Usage
	plan.Before = func() (err error) { before, err = s.Usage(ctx); return err }
	plan.After = func() (err error) { after, err = s.Usage(ctx); return err }
	sample, err := load.Run(ctx, plan, func(ctx context.Context) (bool, error) {
		key := pick()
		if rand.IntN(keysSample) > 0 {
			return allow(ctx, key)
		}
		began := time.Now()
		ok, err := allow(ctx, key)
		round.took.Add(time.Since(began), 1)
		return ok, err
	})
	if err != nil {
		return round, err
	}
	if sample.Decisions() == 0 {
		return round, fmt.Errorf("not one decision, %d errors, such as: %w", sample.Failed, sample.Err)
	}
	round.sample, round.server = sample, after.Since(before)
	return round, nil
}

func (c keysCase) add(result *report.Result, rivals []rival.Rival, callers int, done [][]keysRound) {
	base := slices.IndexFunc(rivals, func(r rival.Rival) bool { return r.Name == "redis_rate" })
	for i, r := range rivals {
		each := make(map[string][]float64)
		for k, round := range done[i] {
			n := float64(round.sample.Decisions())
			each["rate"] = append(each["rate"], round.sample.PerSecond())
			each["cpu"] = append(each["cpu"], round.sample.CPUMicros())
			each["server-cpu"] = append(each["server-cpu"], round.server.CPU*1e6/n)
			each["calls"] = append(each["calls"], float64(round.server.Scripts)/n)
			each["script"] = append(each["script"], float64(round.server.ScriptMicro)/n)
			each["p50"] = append(each["p50"], micros(round.took.Quantile(.5)))
			each["p99"] = append(each["p99"], micros(round.took.Quantile(.99)))
			if base >= 0 {
				each["ratio"] = append(each["ratio"], round.sample.PerSecond()/done[base][k].sample.PerSecond())
			}
			if failed := round.sample.Failed; failed > 0 {
				result.Remark("%s, %d callers: %s failed %d calls, for example: %v.", c.name, callers, r.Name, failed,
					round.sample.Err)
			}
		}
		for _, metric := range slices.Sorted(maps.Keys(each)) {
			result.Add(r.Name, float64(callers), c.name+" "+metric, each[metric]...)
		}
	}
}

// keysSize counts the bytes of keys that were called once.
func keysSize(ctx context.Context, env Env, result *report.Result, r rival.Rival, count int) error {
	s, err := env.start(ctx, result)
	if err != nil {
		return err
	}
	defer s.Close()
	h, err := r.Open(ctx, s.Addr(), rival.Limit{Permits: 100, Per: time.Hour})
	if err != nil {
		return err
	}
	defer h.Close()
	allow, err := rival.Keys(ctx, h, "users")
	if err != nil || allow == nil {
		return err
	}
	names := make([]string, 2*count)
	for i := range names {
		names[i] = "user " + strconv.Itoa(i)
	}
	var bytes [2][]float64 // before and after, in the process and in Redis
	for half := range 2 {
		if err := callOnce(ctx, allow, names[half*count:(half+1)*count]); err != nil {
			return err
		}
		used, err := s.Memory(ctx)
		if err != nil {
			return err
		}
		bytes[half] = []float64{heapBytes(), float64(used)}
	}
	runtime.KeepAlive(names)
	for k, metric := range []string{"bytes", "bytes-redis"} {
		result.Add(r.Name, float64(count), metric, (bytes[1][k]-bytes[0][k])/float64(count))
	}
	return nil
}

// callOnce calls for each of the keys, 64 at a time.
func callOnce(ctx context.Context, allow rival.AllowKey, names []string) error {
	const callers = 64
	var wg sync.WaitGroup
	errs := make([]error, callers)
	for i := range callers {
		wg.Go(func() {
			for k := i; k < len(names) && errs[i] == nil; k += callers {
				_, errs[i] = allow(ctx, names[k])
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func heapBytes() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
