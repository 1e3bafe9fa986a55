package scenario

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/bench/internal/load"
	"github.com/shardlimit/shardlimit/bench/internal/replay"
	"github.com/shardlimit/shardlimit/bench/internal/report"
	"github.com/shardlimit/shardlimit/bench/internal/server"
)

var size = Scenario{
	Name:  "size",
	Title: "cost of the script against the size of the limit",
	Takes: 30 * time.Second,
	Question: `Does a decision cost more when the limit is large? Limits of the same size, of one
shard each and with a full log: time in the script as the server counts it (INFO
commandstats), and memory of a shard's two keys (MEMORY USAGE). Calls come in
pipelines of sixteen, each to another limit, and about as many a second whatever the
size: there are sixteen limits, or more where a limit is small. "granted" spreads
the calls over the window at 90 % of the limits; "denied" repeats them against
exhausted limits; "after half a window" and "after a whole window" are the first
calls that find half or all of a full log expired, sent to a server that has just
been kept busy with another limit. A take is of one permit up to 1000 permits a window, and of a larger part of them
above; a denied take of several permits has to search the log for its RetryAfter.`,
	Run: runSize,
}

const (
	sizePipeline = 16  // limits served by one pipeline
	sizeCalls    = 800 // pipelines a window, about: a busy client's batches
	sizeDenied   = 64  // pipelines against exhausted limits, and to keep the server busy
	sizeLoad     = 0.9 // of the limit
)

// sizeCase is one size of limit under measurement.
type sizeCase struct {
	server  *server.Server
	client  rueidis.Client
	shard   *replay.Shard      // the last of them all
	takes   [][]replay.Command // pipelines; every take is from another shard
	other   replay.Command     // of a limit that is exhausted
	permits int64
	each    int64 // permits a take
	window  time.Duration
}

func runSize(ctx context.Context, env Env, result *report.Result) error {
	exponents, window := []int{2, 3, 4, 5, 6, 7}, env.span(time.Second, time.Second)
	if env.Smoke {
		exponents = []int{2, 7}
	}
	rounds := env.rounds(5)
	result.Views = []report.View{
		{Metric: "script", Title: "Time in the script per call", Unit: "us", X: "permits", Plot: true, LogX: true},
		{Metric: "memory", Title: "Memory of a full shard", Unit: "bytes", X: "permits", Plot: true, LogX: true},
		{Metric: "entries", Title: "Entries in the log of a full shard", Unit: "entries", X: "permits", LogX: true},
	}
	setting(result, "Limit", "100 to 10 000 000 permits per %s", window)
	setting(result, "Rounds", "%d", rounds)

	s, err := env.start(ctx, result)
	if err != nil {
		return err
	}
	defer s.Close()
	client, err := rueidis.NewClient(server.Option(s.Addr()))
	if err != nil {
		return err
	}
	defer client.Close()
	found := make(map[int]map[string][]float64)
	for round := range rounds {
		for _, i := range rotated(len(exponents), round) {
			exponent := exponents[i]
			c, err := newSizeCase(ctx, s, client, round, int64(math.Pow10(exponent)), window)
			if err != nil {
				return err
			}
			if found[exponent] == nil {
				found[exponent] = make(map[string][]float64)
			}
			if err := c.measure(ctx, found[exponent]); err != nil {
				return fmt.Errorf("%d permits: %w", c.permits, err)
			}
		}
		env.Progress("round %d of %d done", round+1, rounds)
	}
	for _, exponent := range exponents {
		addSize(result, math.Pow10(exponent), found[exponent])
	}
	return nil
}

func newSizeCase(ctx context.Context, s *server.Server, client rueidis.Client, round int, permits int64, window time.Duration) (*sizeCase, error) {
	c := &sizeCase{server: s, client: client, permits: permits, each: max(1, permits/sizeCalls), window: window}
	var err error
	if _, c.other, err = replay.Capture(ctx, client, "size-other", 1, time.Hour, 1); err != nil {
		return nil, err
	}
	for pipeline := range max(1, sizeCalls/permits) {
		c.takes = append(c.takes, nil)
		for i := range sizePipeline {
			name := fmt.Sprintf("size-%d-%d-%d-%d", permits, round, pipeline, i)
			shard, take, err := replay.Capture(ctx, client, name, permits, window, c.each)
			if err != nil {
				return nil, err
			}
			c.shard, c.takes[pipeline] = shard, append(c.takes[pipeline], take)
		}
	}
	return c, nil
}

// measure appends one round of every quantity to found.
func (c *sizeCase) measure(ctx context.Context, found map[string][]float64) error {
	note := func(name string, value float64) { found[name] = append(found[name], value) }
	if _, err := c.fill(ctx); err != nil { // a whole window, so that the log is as full as it gets
		return err
	}
	micros, err := c.fill(ctx)
	if err != nil {
		return err
	}
	note("granted", micros)
	memory, entries, err := c.weigh(ctx)
	if err != nil {
		return err
	}
	note("memory", memory)
	note("entries", entries)
	if err := c.exhaust(ctx); err != nil {
		return err
	}
	micros, err = c.timed(ctx, func() error { return repeat(sizeDenied, func() error { return c.round(ctx) }) })
	if err != nil {
		return err
	}
	note("denied", micros)
	for _, idle := range []struct {
		name string
		wait time.Duration
	}{
		{"after half a window", c.window / 2},
		{"after a whole window", c.window + c.window/20},
	} {
		if err := load.Sleep(ctx, idle.wait); err != nil {
			return err
		}
		if err := repeat(sizeDenied, func() error { return c.burst(ctx, c.other) }); err != nil {
			return err
		}
		if micros, err = c.timed(ctx, func() error { return c.round(ctx) }); err != nil {
			return err
		}
		note(idle.name, micros)
	}
	return nil
}

// fill takes 90 % of every limit, evenly over one window, and returns the
// script's time per call.
func (c *sizeCase) fill(ctx context.Context) (float64, error) {
	perWindow := sizeLoad * float64(c.permits) / float64(c.each) * float64(len(c.takes))
	tick := time.NewTicker(time.Duration(float64(c.window) / perWindow))
	defer tick.Stop()
	return c.timed(ctx, func() error {
		end := time.Now().Add(c.window)
		for i := 0; time.Now().Before(end); i++ {
			if err := c.burst(ctx, c.takes[i%len(c.takes)]...); err != nil {
				return err
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-tick.C:
			}
		}
		return nil
	})
}

// exhaust takes from every limit until a take is denied.
func (c *sizeCase) exhaust(ctx context.Context) error {
	for range 2 * c.permits / c.each {
		if err := c.round(ctx); err != nil {
			return err
		}
		if granted, err := c.shard.Take(ctx, c.each); err != nil || granted == 0 {
			return err
		}
	}
	return fmt.Errorf("%d takes of %d permits did not exhaust the limit", 2*c.permits/c.each, c.each)
}

// round sends one take to every limit.
func (c *sizeCase) round(ctx context.Context) error {
	for _, takes := range c.takes {
		if err := c.burst(ctx, takes...); err != nil {
			return err
		}
	}
	return nil
}

// burst sends one pipeline.
func (c *sizeCase) burst(ctx context.Context, takes ...replay.Command) error {
	commands := make([]rueidis.Completed, len(takes))
	for i, take := range takes {
		commands[i] = take.Build(c.client)
	}
	for _, reply := range c.client.DoMulti(ctx, commands...) {
		if err := reply.Error(); err != nil {
			return err
		}
	}
	return nil
}

func repeat(n int, do func() error) error {
	for range n {
		if err := do(); err != nil {
			return err
		}
	}
	return nil
}

// timed returns the server's microseconds per script call while do runs.
func (c *sizeCase) timed(ctx context.Context, do func() error) (float64, error) {
	return scriptMicros(ctx, c.server, do)
}

// weigh returns the bytes of one shard's keys and the entries in its log.
func (c *sizeCase) weigh(ctx context.Context) (bytes, entries float64, err error) {
	head, log := c.shard.Keys()
	for _, key := range []string{head, log} {
		n, err := c.client.Do(ctx, c.client.B().MemoryUsage().Key(key).Samples(0).Build()).ToInt64()
		if err != nil && !rueidis.IsRedisNil(err) {
			return 0, 0, err
		}
		bytes += float64(n)
	}
	n, err := c.client.Do(ctx, c.client.B().Zcard().Key(log).Build()).ToInt64()
	return bytes, float64(n), err
}

func addSize(result *report.Result, permits float64, found map[string][]float64) {
	for _, name := range []string{"granted", "denied", "after half a window", "after a whole window"} {
		result.Add(name, permits, "script", found[name]...)
	}
	result.Add("head and log", permits, "memory", found["memory"]...)
	result.Add("log", permits, "entries", found["entries"]...)
}
