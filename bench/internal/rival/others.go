package rival

import (
	"context"
	_ "embed"
	"strconv"
	"strings"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislimiter"
	"github.com/ulule/limiter/v3"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"
	"github.com/zeromicro/go-zero/core/limit"
	"github.com/zeromicro/go-zero/core/logx"
	zeroredis "github.com/zeromicro/go-zero/core/stores/redis"

	"github.com/shardlimit/shardlimit/bench/internal/server"
)

//go:embed gcra.lua
var gcraScript string

// gcra is the few lines that many projects have for this.
var gcra = Rival{
	Name:      "gcra",
	Clustered: true,
	Open: func(_ context.Context, addr string, limit Limit) (Handle, error) {
		script := rueidis.NewLuaScript(gcraScript)
		window := float64(limit.Per.Microseconds())
		args := []string{strconv.FormatFloat(window/float64(limit.Permits), 'f', 3, 64),
			strconv.FormatFloat(window, 'f', 0, 64)}
		return plain(addr, func(ctx context.Context, client rueidis.Client, key string) (bool, error) {
			granted, err := script.Exec(ctx, client, []string{"gcra:" + key}, args).AsInt64()
			return granted > 0, err
		})
	},
}

// increx is the command of Redis for a bounded counter, which begins anew with each window.
var increx = Rival{
	Name:      "increx",
	Clustered: true,
	Needs:     "INCREX",
	Open: func(_ context.Context, addr string, limit Limit) (Handle, error) {
		return plain(addr, func(ctx context.Context, client rueidis.Client, key string) (bool, error) {
			reply, err := client.Do(ctx, client.B().Arbitrary("INCREX").Keys("increx:"+key).Args("BYINT", "1", "UBOUND",
				strconv.FormatInt(limit.Permits, 10), "PX", strconv.FormatInt(limit.Per.Milliseconds(), 10),
				"ENX").Build()).AsIntSlice()
			return len(reply) == 2 && reply[1] > 0, err // the value, and how much was added
		})
	},
}

// plain asks the server with a client and nothing else.
func plain(addr string, allow func(ctx context.Context, client rueidis.Client, key string) (bool, error)) (Handle,
	error) {
	client, err := rueidis.NewClient(server.Option(addr))
	if err != nil {
		return Handle{}, err
	}
	return byName(func(ctx context.Context, key string) (bool, error) { return allow(ctx, client, key) },
		client.Close), nil
}

var redisRate = Rival{
	Name:      "redis_rate",
	Module:    "github.com/go-redis/redis_rate/v10",
	Clustered: true,
	Open: func(_ context.Context, addr string, limit Limit) (Handle, error) {
		client := goRedis(addr)
		limiter := redis_rate.NewLimiter(client)
		rate := redis_rate.Limit{Rate: int(limit.Permits), Burst: int(limit.Permits), Period: limit.Per}
		return byName(func(ctx context.Context, key string) (bool, error) {
			result, err := limiter.Allow(ctx, key, rate)
			if err != nil {
				return false, err
			}
			return result.Allowed > 0, nil
		}, func() { _ = client.Close() }), nil
	},
}

func goRedis(addr string) redis.UniversalClient {
	return redis.NewUniversalClient(&redis.UniversalOptions{Addrs: strings.Split(addr, ",")})
}

var rueidisLimiter = Rival{
	Name:      "rueidislimiter",
	Module:    "github.com/redis/rueidis/rueidislimiter",
	Clustered: true,
	Open: func(_ context.Context, addr string, limit Limit) (Handle, error) {
		var client rueidis.Client
		limiter, err := rueidislimiter.NewRateLimiter(rueidislimiter.RateLimiterOption{
			ClientOption: server.Option(addr),
			ClientBuilder: func(option rueidis.ClientOption) (_ rueidis.Client, err error) {
				client, err = rueidis.NewClient(option) // kept, because the limiter cannot be closed
				return client, err
			},
			Limit:  int(limit.Permits),
			Window: limit.Per,
		})
		if err != nil {
			return Handle{}, err
		}
		return byName(func(ctx context.Context, key string) (bool, error) {
			result, err := limiter.Allow(ctx, key)
			return result.Allowed, err
		}, client.Close), nil
	},
}

var ulule = Rival{
	Name:      "ulule",
	Module:    "github.com/ulule/limiter/v3",
	Clustered: true,
	Open: func(_ context.Context, addr string, limit Limit) (Handle, error) {
		client := goRedis(addr)
		store, err := ululeredis.NewStore(client)
		if err != nil {
			_ = client.Close()
			return Handle{}, err
		}
		l := limiter.New(store, limiter.Rate{Period: limit.Per, Limit: limit.Permits})
		return byName(func(ctx context.Context, key string) (bool, error) {
			result, err := l.Get(ctx, key)
			return err == nil && !result.Reached, err
		}, func() { _ = client.Close() }), nil
	},
}

// It prints a line every minute, and some at a signal, in any program that has it
// linked in.
func init() {
	logx.Disable()
	logx.DisableStat()
}

// goZero is its PeriodLimit. Its TokenLimiter goes on locally when the server
// is slow, which would be measured as speed.
var goZero = Rival{
	Name:   "go-zero",
	Module: "github.com/zeromicro/go-zero",
	Open: func(_ context.Context, addr string, l Limit) (Handle, error) {
		store, err := zeroredis.NewRedis(zeroredis.RedisConf{Host: addr, Type: zeroredis.NodeType})
		if err != nil {
			return Handle{}, err
		}
		limiter := limit.NewPeriodLimit(int(l.Per/time.Second), int(l.Permits), store, "go-zero:")
		return byName(func(ctx context.Context, key string) (bool, error) {
			code, err := limiter.TakeCtx(ctx, key)
			return code == limit.Allowed || code == limit.HitQuota, err
		}, func() {}), nil // go-zero keeps one client an address for the life of the process
	},
}
