package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/bench/internal/load"
	"github.com/shardlimit/shardlimit/bench/internal/replay"
	"github.com/shardlimit/shardlimit/bench/internal/server"
)

const (
	sizePipeline = 16          // limits served by one pipeline
	sizeCalls    = 800         // pipelines a second, and a window, about: a busy client's batches
	sizeFewest   = 8           // a window
	sizeDenied   = 64          // pipelines against exhausted limits, and to keep the server busy
	sizeLoad     = 0.9         // of the limit
	sizeAged     = 0.8         // of a limit whose past is made up
	sizePast     = 400         // takes in that past
	sizePatience = time.Second // longer windows are not waited for
)

// sizeCase is one size of limit under measurement.
type sizeCase struct {
	*sizeRun
	sizePoint
	shards []*replay.Shard
	takes  [][]replay.Command // pipelines; every take is from another shard
	other  replay.Command     // of a limit that is exhausted
	each   int64              // permits a take
}

// ours appends one round of every quantity of a size.
func (run *sizeRun) ours(ctx context.Context, round int, p sizePoint) error {
	c, err := newSizeCase(ctx, run, round, p)
	if err != nil {
		return err
	}
	longest, err := run.server.Longest(ctx, func() error { return c.measure(ctx) })
	if err != nil {
		return err
	}
	run.found.add(sizeOurs, p.x, "longest"+p.suffix, longest.Seconds()*1e3)
	return nil
}

func newSizeCase(ctx context.Context, run *sizeRun, round int, p sizePoint) (*sizeCase, error) {
	calls := int64(min(max(p.window.Seconds()*sizeCalls, sizeFewest), sizeCalls)) // of each limit, in a window
	c := &sizeCase{sizeRun: run, sizePoint: p, each: max(1, p.permits/calls)}
	var err error
	if _, c.other, err = replay.Capture(ctx, run.client, "size-other", 1, time.Hour, 1); err != nil {
		return nil, err
	}
	for pipeline := range max(1, calls/p.permits) {
		c.takes = append(c.takes, nil)
		for i := range sizePipeline {
			name := fmt.Sprintf("size-%d-%s-%d-%d-%d", p.permits, p.window, round, pipeline, i)
			shard, take, err := replay.Capture(ctx, run.client, name, p.permits, p.window, c.each)
			if err != nil {
				return nil, err
			}
			c.shards, c.takes[pipeline] = append(c.shards, shard), append(c.takes[pipeline], take)
		}
	}
	return c, nil
}

// measure notes one round of every quantity.
func (c *sizeCase) measure(ctx context.Context) error {
	if err := c.prepare(ctx); err != nil {
		return err
	}
	if err := c.timed(ctx, "granted", func() error { return c.fill(ctx) }); err != nil {
		return err
	}
	if err := c.weigh(ctx); err != nil {
		return err
	}
	if err := c.exhaust(ctx); err != nil {
		return err
	}
	if err := c.timed(ctx, "denied",
		func() error { return repeat(sizeDenied, func() error { return c.round(ctx) }) }); err != nil {
		return err
	}
	for _, idle := range []struct {
		name string
		wait time.Duration
	}{
		{"after half a window", c.window / 2},
		{"after a whole window", c.window + c.window/20},
	} {
		if err := c.rest(ctx, idle.wait); err != nil {
			return err
		}
		if err := repeat(sizeDenied, func() error { return c.burst(ctx, c.other) }); err != nil {
			return err
		}
		if err := c.timed(ctx, idle.name, func() error { return c.round(ctx) }); err != nil {
			return err
		}
	}
	return nil
}

// prepare gives the limits a past of a window, so that their logs are as full as they get.
func (c *sizeCase) prepare(ctx context.Context) error {
	if c.window > sizePatience {
		return c.rest(ctx, 0)
	}
	return c.fill(ctx)
}

// rest lets time pass after the last of the takes that fill a log.
func (c *sizeCase) rest(ctx context.Context, idle time.Duration) error {
	if c.window <= sizePatience {
		return load.Sleep(ctx, idle)
	}
	aged, err := replay.Age(ctx, c.permits, c.window, int64(sizeAged*float64(c.permits)/sizePast), sizePast,
		time.Now().Add(-idle))
	if err != nil {
		return err
	}
	for _, s := range c.shards {
		if err := s.Restore(ctx, c.client, aged); err != nil {
			return err
		}
	}
	return nil
}

// fill takes 90 % of every limit, evenly over one window, or, if that is too
// long, what of the 90 % a made-up past has left.
func (c *sizeCase) fill(ctx context.Context) error {
	if c.window > sizePatience {
		return repeat(int((sizeLoad-sizeAged)*float64(c.permits/c.each)), func() error { return c.round(ctx) })
	}
	perWindow := sizeLoad * float64(c.permits) / float64(c.each) * float64(len(c.takes))
	tick := time.NewTicker(time.Duration(float64(c.window) / perWindow))
	defer tick.Stop()
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
}

// exhaust takes from every limit what it has left, at once: a slow machine takes it one by one no
// faster than it comes back.
func (c *sizeCase) exhaust(ctx context.Context) error {
	for _, s := range c.shards {
		if _, err := s.TakeUpTo(ctx, c.permits); err != nil {
			return err
		}
	}
	return nil
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

// timed notes the server's microseconds per script call while do runs.
func (c *sizeCase) timed(ctx context.Context, what string, do func() error) error {
	micros, err := scriptMicros(ctx, c.server, do)
	if err != nil {
		return err
	}
	c.found.add(sizeOurs+", "+what, c.x, "script"+c.suffix, micros)
	return nil
}

// weigh notes the bytes of one shard's keys and the entries in its log.
func (c *sizeCase) weigh(ctx context.Context) error {
	head, log := c.shards[0].Keys()
	if c.suffix == "" {
		n, err := c.client.Do(ctx, c.client.B().Zcard().Key(log).Build()).ToInt64()
		if err != nil {
			return err
		}
		c.found.add(sizeOurs, c.x, "entries", float64(n))
	}
	return c.weighAll(ctx, sizeOurs, c.x, "memory"+c.suffix, head, log)
}

// weighAll notes the bytes of the keys of a limit, as far as they exist.
func (run *sizeRun) weighAll(ctx context.Context, series string, x float64, metric string, keys ...string) error {
	var bytes int64
	for _, key := range keys {
		n, err := run.client.Do(ctx, run.client.B().MemoryUsage().Key(key).Samples(0).Build()).ToInt64()
		if err != nil && !rueidis.IsRedisNil(err) {
			return err
		}
		bytes += n
	}
	run.found.add(series, x, metric, float64(bytes))
	return nil
}

// scriptMicros returns a server's microseconds per script call while do runs.
func scriptMicros(ctx context.Context, s *server.Server, do func() error) (float64, error) {
	before, err := s.Usage(ctx)
	if err != nil {
		return 0, err
	}
	if err := do(); err != nil {
		return 0, err
	}
	after, err := s.Usage(ctx)
	if err != nil {
		return 0, err
	}
	used := after.Since(before)
	if used.Scripts == 0 {
		return 0, errors.New("no script was called")
	}
	return float64(used.ScriptMicro) / float64(used.Scripts), nil
}
