package fleet

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/bench/internal/replay"
)

// ways are how a member gets permits.
type ways struct {
	take take
	wait wait
}

// admit connects the members of a crowd and makes each one's ways.
func admit(ctx context.Context, c Crowd) (all []ways, end func(), err error) {
	var ends []func()
	end = func() {
		for _, e := range ends {
			e()
		}
	}
	var shared *shardlimit.Client
	for _, m := range c.Members {
		var w ways
		var close func()
		switch {
		case c.Kind == Coalesced && c.Gateway && shared != nil:
			w, err = limiterWays(ctx, shared, c, m)
			close = func() {}
		case c.Kind == Coalesced:
			if shared, err = shardlimit.New(crowdConfig(c, m)); err == nil {
				close = shared.Close
				w, err = limiterWays(ctx, shared, c, m)
			}
		case c.Kind == FirstCome:
			w, close, err = firstComeWays(c, m)
		case c.Kind == RedisRate:
			w, close = redisRateWays(c, m)
		default:
			err = fmt.Errorf("no crowd is of the kind %q", c.Kind)
		}
		if close != nil {
			ends = append(ends, close)
		}
		if err != nil {
			end()
			return nil, nil, err
		}
		all = append(all, w)
	}
	return all, end, nil
}

func crowdConfig(c Crowd, m Member) shardlimit.Config {
	config := shardlimit.Config{Participant: m.Name, Weight: m.Weight, CallTimeout: callTimeout}
	if c.Gateway {
		config.Participant, config.Weight = "gateway", 0
	}
	for i, addr := range c.Addrs {
		config.Nodes = append(config.Nodes, shardlimit.Node{Name: NodeName(i), Redis: distant(option(addr), m.Far)})
	}
	return config
}

// limiterWays makes single calls, as programs do.
func limiterWays(ctx context.Context, client *shardlimit.Client, c Crowd, m Member) (ways, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	limiter, err := client.Limiter(ctx, c.Limit, shardlimit.Limit{Permits: c.Permits, Per: c.Per, Shards: c.Shards})
	if err != nil {
		return ways{}, err
	}
	if c.Gateway {
		limiter = limiter.As(m.Name, m.Weight)
	}
	return ways{limiterTake(limiter), limiter.Wait}, nil
}

func limiterTake(limiter *shardlimit.Limiter) take {
	return func(ctx context.Context, n int64) (granted int64, err error) {
		var (
			mu    sync.Mutex
			calls sync.WaitGroup
		)
		for range n {
			calls.Go(func() {
				d, failed := limiter.Allow(ctx)
				mu.Lock()
				defer mu.Unlock()
				granted += d.Granted
				if failed != nil {
					err = failed
				}
			})
		}
		calls.Wait()
		return granted, err
	}
}

// firstComeWays asks our script, without a word about who asks, for all at once. Who
// waits comes again when the next permits leave the log.
func firstComeWays(c Crowd, m Member) (ways, func(), error) {
	client, err := rueidis.NewClient(distant(option(c.Addrs[0]), m.Far))
	if err != nil {
		return ways{}, nil, err
	}
	shard, err := replay.NewShard(client, c.Limit, c.Permits, c.Per)
	if err != nil {
		client.Close()
		return ways{}, nil, err
	}
	return ways{shard.TakeUpTo, retried(shard.TryOne)}, client.Close, nil
}

// redisRateWays asks for all at once, which is kinder than one call each. Who waits
// comes again after the time that it is told.
func redisRateWays(c Crowd, m Member) (ways, func()) {
	options := &redis.Options{Addr: c.Addrs[0], DialTimeout: callTimeout, ReadTimeout: callTimeout}
	if m.Far > 0 {
		options.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := (&net.Dialer{Timeout: callTimeout}).DialContext(ctx, network, addr)
			return delayed(conn, m.Far), err
		}
	}
	client := redis.NewClient(options)
	limiter := redis_rate.NewLimiter(client)
	rate := redis_rate.Limit{Rate: int(c.Permits), Burst: int(c.Permits), Period: c.Per}
	take := func(ctx context.Context, n int64) (int64, error) {
		r, err := limiter.AllowAtMost(ctx, c.Limit, rate, int(n))
		if err != nil {
			return 0, err
		}
		return int64(r.Allowed), nil
	}
	wait := retried(func(ctx context.Context) (bool, time.Duration, error) {
		r, err := limiter.Allow(ctx, c.Limit, rate)
		if err != nil {
			return false, 0, err
		}
		return r.Allowed > 0, r.RetryAfter, nil
	})
	return ways{take, wait}, func() { _ = client.Close() }
}

// distant adds a delay to the network.
func distant(o rueidis.ClientOption, delay time.Duration) rueidis.ClientOption {
	if delay > 0 {
		o.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			conn, err := d.DialContext(ctx, "tcp", addr)
			return delayed(conn, delay), err
		}
	}
	return o
}
