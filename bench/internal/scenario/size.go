package scenario

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
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
	Question: `Does a decision cost more when the limit is large? Limits of one shard each and with a full log: time in
the script as the server counts it, and memory of a limit's keys. "granted" spreads the calls over the window at 90 % of
the limits, about as many a second whatever the size; "denied" repeats them against exhausted limits; "after a whole
window" are the first calls that find all of a full log expired, sent to a server that has just been kept busy with
another limit. "plain ZSET" is the script that is usually written: a sorted set with a member for each permit,
ZREMRANGEBYSCORE and ZCARD. It is filled with one permit a call, as fast as it answers, and "after a whole window" is a
single call to which the window has been made 1 ms short.`,
	X: "permits",
	Views: []report.View{
		{Metric: "script", Title: "Time in the script per call", Unit: "µs", LogX: true, LogY: true, Keep: true,
			Drawn: []string{"shardlimit, granted", "shardlimit, denied", "plain ZSET, granted", "plain ZSET, denied"}},
		{Metric: "memory", Title: "Memory of a full limit", Unit: "bytes"},
	},
	Run: func(ctx context.Context, s *Sheet) error {
		exponents, window := []int{2, 3, 4, 5, 6, 7}, time.Second
		if s.Smoke {
			exponents, window = []int{2, 4}, 100*time.Millisecond
		}
		rounds := s.turns(2)
		s.setting("Limit", "100 to 10 000 000 permits per %s", window)
		s.setting("Rounds", "%d", rounds)
		on, err := s.start(ctx, 1)
		if err != nil {
			return err
		}
		defer on.Close()
		client, err := rueidis.NewClient(server.Option(on.Addr()))
		if err != nil {
			return err
		}
		defer client.Close()
		return s.inTurns(rounds, len(exponents), func(round, i int) error {
			c := sizeCase{Sheet: s, on: on, client: client, window: window, permits: int64(math.Pow10(exponents[i]))}
			if err := c.ours(ctx, round); err != nil {
				return fmt.Errorf("%d permits: %w", c.permits, err)
			}
			if c.permits > sizePlainMost {
				return nil
			}
			return c.plain(ctx, round)
		})
	},
}

const (
	sizeShards    = 16  // limits that are called at once
	sizeCalls     = 800 // of each limit in a window, at most
	sizeLoad      = 0.9 // of the limit
	sizePlainMost = 1_000_000
	sizeTogether  = 64        // takes of the plain script in a pipeline
	sizeKeep      = time.Hour // window of a plain limit, until it has been filled
)

// sizeCase is one size of limit under measurement.
type sizeCase struct {
	*Sheet
	on      server.Farm
	client  rueidis.Client
	window  time.Duration
	permits int64
}

// timed notes the server's microseconds per script call while do runs.
func (c sizeCase) timed(ctx context.Context, series string, do func() error) error {
	before, err := c.on.Usage(ctx)
	if err == nil {
		err = do()
	}
	if err != nil {
		return err
	}
	after, err := c.on.Usage(ctx)
	used := after.Since(before)
	if err == nil && used.Scripts == 0 {
		err = errors.New("no script was called")
	}
	c.Note(series, float64(c.permits), figures{"script": float64(used.ScriptMicro) / float64(used.Scripts)})
	return err
}

// weigh notes the bytes of the keys of a limit, as far as they exist.
func (c sizeCase) weigh(ctx context.Context, series string, keys ...string) error {
	var bytes int64
	for _, key := range keys {
		n, err := c.client.Do(ctx, c.client.B().MemoryUsage().Key(key).Samples(0).Build()).ToInt64()
		if err != nil && !rueidis.IsRedisNil(err) {
			return err
		}
		bytes += n
	}
	c.Note(series, float64(c.permits), figures{"memory": float64(bytes)})
	return nil
}

func (c sizeCase) ours(ctx context.Context, round int) error {
	other, err := replay.NewShard(c.client, "size-other", 1, time.Hour)
	if err != nil {
		return err
	}
	n := max(1, c.permits/sizeCalls) // permits a call
	shards := make([]*replay.Shard, sizeShards*max(1, sizeCalls/c.permits))
	for i := range shards {
		name := fmt.Sprintf("size-%d-%d-%d", c.permits, round, i)
		if shards[i], err = other.Sized(name, c.permits, c.window); err != nil {
			return err
		}
	}
	take := func(shards []*replay.Shard, n, count int64) error {
		var wg sync.WaitGroup
		errs := make([]error, len(shards))
		for i, shard := range shards {
			wg.Go(func() { _, errs[i] = shard.Take(ctx, n, count) })
		}
		wg.Wait()
		return errors.Join(errs...)
	}
	fill := func() error { // 90 % of every limit, evenly over one window
		rounds := sizeLoad * float64(c.permits) / float64(n) * float64(len(shards)) / sizeShards
		pause := time.Duration(float64(c.window) / rounds)
		tick, end := time.NewTicker(pause), time.Now().Add(c.window)
		defer tick.Stop()
		for i := 0; time.Now().Before(end); i = (i + sizeShards) % len(shards) {
			if err := take(shards[i:i+sizeShards], n, 1); err != nil {
				return err
			}
			<-tick.C
		}
		return nil
	}
	busy := func(shards ...*replay.Shard) error {
		for range 64 {
			if err := take(shards, n, 1); err != nil {
				return err
			}
		}
		return nil
	}
	return inOrder(
		fill, // the limits have a past of a window, so that their logs are as full as they get
		func() error { return c.timed(ctx, "shardlimit, granted", fill) },
		func() error { return c.weigh(ctx, "shardlimit", shards[0].Keys()...) },
		func() error { return take(shards, 1, c.permits) }, // what they have left
		func() error { return c.timed(ctx, "shardlimit, denied", func() error { return busy(shards...) }) },
		func() error { return load.Sleep(ctx, c.window+c.window/20) },
		func() error { return busy(other) },
		func() error {
			return c.timed(ctx, "shardlimit, after a whole window", func() error { return take(shards, n, 1) })
		},
	)
}

func inOrder(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// plainSource is the sliding log as it is usually written.
//
//go:embed plain.lua
var plainSource string

func (c sizeCase) plain(ctx context.Context, round int) error {
	sha, err := c.client.Do(ctx, c.client.B().ScriptLoad().Script(plainSource).Build()).ToString()
	if err != nil {
		return err
	}
	key, calls := fmt.Sprintf("plain:%d-%d", c.permits, round), int64(0)
	take := func(n int64, window time.Duration) (granted int64, err error) {
		commands := make([]rueidis.Completed, n)
		for i := range commands {
			calls++
			commands[i] = c.client.B().Evalsha().Sha1(sha).Numkeys(1).Key(key).Arg(strconv.FormatInt(c.permits, 10),
				strconv.FormatInt(window.Microseconds(), 10), strconv.FormatInt((2*sizeKeep).Milliseconds(), 10),
				strconv.FormatInt(calls, 36)).Build()
		}
		for _, reply := range c.client.DoMulti(ctx, commands...) {
			ints, err := reply.AsIntSlice()
			if err != nil {
				return granted, err
			}
			granted += ints[0]
		}
		return granted, nil
	}
	upTo := func(permits int64) error { // until so many calls are made, or nothing is left
		for n := permits; n > 0; n -= sizeTogether {
			if granted, err := take(min(n, sizeTogether), sizeKeep); err != nil || granted == 0 {
				return err
			}
		}
		return nil
	}
	return inOrder(
		func() error {
			return c.timed(ctx, "plain ZSET, granted",
				func() error { return upTo(int64(sizeLoad * float64(c.permits))) })
		},
		func() error { return c.weigh(ctx, "plain ZSET", key) },
		func() error { return upTo(c.permits) },
		func() error { return c.timed(ctx, "plain ZSET, denied", func() error { return upTo(sizeTogether) }) },
		func() error {
			return c.timed(ctx, "plain ZSET, after a whole window", func() error {
				granted, err := take(1, time.Millisecond)
				if err == nil && granted != 1 {
					err = errors.New("denied, although everything has left the window")
				}
				return err
			})
		},
		func() error { return c.client.Do(ctx, c.client.B().Del().Key(key).Build()).Error() },
	)
}
