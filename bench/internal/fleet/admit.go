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

// admit connects the members of a crowd and makes each one's take.
func admit(ctx context.Context, c Crowd) (takes []take, end func(), err error) {
	var ends []func()
	end = func() {
		for _, e := range ends {
			e()
		}
	}
	var shared *shardlimit.Client
	for _, m := range c.Members {
		var t take
		var close func()
		switch {
		case c.Kind == Coalesced && c.Gateway && shared != nil:
			t, err = limiterTake(ctx, shared, c, m)
			close = func() {}
		case c.Kind == Coalesced:
			if shared, err = shardlimit.New(crowdConfig(c, m)); err == nil {
				close = shared.Close
				t, err = limiterTake(ctx, shared, c, m)
			}
		case c.Kind == FirstCome:
			t, close, err = firstComeTake(c, m)
		case c.Kind == RedisRate:
			t, close = redisRateTake(c, m)
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
		takes = append(takes, t)
	}
	return takes, end, nil
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

// limiterTake makes single calls, as programs do.
func limiterTake(ctx context.Context, client *shardlimit.Client, c Crowd, m Member) (take, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	limiter, err := client.Limiter(ctx, c.Limit, shardlimit.Limit{Permits: c.Permits, Per: c.Per, Shards: c.Shards})
	if err != nil {
		return nil, err
	}
	if c.Gateway {
		limiter = limiter.As(m.Name, m.Weight)
	}
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
	}, nil
}

// firstComeTake asks our script, without a word about who asks, for all at once.
func firstComeTake(c Crowd, m Member) (take, func(), error) {
	client, err := rueidis.NewClient(distant(option(c.Addrs[0]), m.Far))
	if err != nil {
		return nil, nil, err
	}
	shard, err := replay.NewShard(client, c.Limit, c.Permits, c.Per)
	if err != nil {
		client.Close()
		return nil, nil, err
	}
	return shard.TakeUpTo, client.Close, nil
}

// redisRateTake asks for all at once, which is kinder than one call each.
func redisRateTake(c Crowd, m Member) (take, func()) {
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
	return func(ctx context.Context, n int64) (int64, error) {
		r, err := limiter.AllowAtMost(ctx, c.Limit, rate, int(n))
		if err != nil {
			return 0, err
		}
		return int64(r.Allowed), nil
	}, func() { _ = client.Close() }
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
