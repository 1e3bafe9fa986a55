package gateway

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/go-redis/redis_rate/v10"
	"github.com/ulule/limiter/v3"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/bench/internal/server"
	"github.com/shardlimit/shardlimit/httplimit"
)

// The names of the variants.
const (
	None      = "no limiter"
	Refuse    = "429 without a limiter" // every request; what the answer itself costs
	Bare      = "EVALSHA"
	HTTPLimit = "httplimit"
	HTTPRate  = "httprate"
	RedisRate = "redis_rate"
	Ulule     = "ulule"
)

// middleware wraps a handler.
type middleware = func(http.Handler) http.Handler

// variant is a way to limit requests.
type variant struct {
	name string
	open func(ctx context.Context, j Job) (limit middleware, end func(), err error)
}

var variants = []variant{
	{None, func(context.Context, Job) (middleware, func(), error) {
		return func(next http.Handler) http.Handler { return next }, func() {}, nil
	}},
	{Refuse, openRefuse},
	{Bare, openBare},
	{HTTPLimit, openHTTPLimit},
	{HTTPRate, openHTTPRate},
	{RedisRate, openRedisRate},
	{Ulule, openUlule},
}

func key(r *http.Request) string { return r.Header.Get(KeyHeader) }

// openRefuse answers every request with the fields that httplimit sets, all of them constants.
func openRefuse(context.Context, Job) (middleware, func(), error) {
	return func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			h := w.Header()
			h.Set("Retry-After", "3600")
			h.Set("RateLimit-Policy", `"default";q=1;w=3600`)
			h.Set("RateLimit", `"default";r=0;t=3600`)
			http.Error(w, "too many requests", http.StatusTooManyRequests)
		})
	}, func() {}, nil
}

// bareScript is the least that a script can do to count a request.
const bareScript = `local n = redis.call('INCR', KEYS[1])
if n == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
return n`

// openBare makes a script call of its own for each request.
func openBare(_ context.Context, j Job) (middleware, func(), error) {
	client, err := rueidis.NewClient(server.Option(j.Redis))
	if err != nil {
		return nil, nil, err
	}
	count, window := rueidis.NewLuaScript(bareScript), strconv.FormatInt(j.Per.Milliseconds(), 10)
	return byHand(func(ctx context.Context, key string) (verdict, error) {
		n, err := count.Exec(ctx, client, []string{key}, []string{window}).AsInt64()
		return verdict{allowed: n <= j.Permits, limit: j.Permits, left: j.Permits - n, reset: j.Per}, err
	}), client.Close, nil
}

func openHTTPLimit(ctx context.Context, j Job) (middleware, func(), error) {
	client, err := shardlimit.New(shardlimit.Config{
		Nodes:       []shardlimit.Node{{Name: "node-0", Redis: server.Option(j.Redis)}},
		CallTimeout: time.Second, // on a loaded machine the default would be a race with the scheduler
	})
	if err != nil {
		return nil, nil, err
	}
	family, err := client.Family(ctx, "users", shardlimit.Limit{Permits: j.Permits, Per: j.Per})
	if err != nil {
		client.Close()
		return nil, nil, err
	}
	return httplimit.New(httplimit.PerKey(family, key), httplimit.Options{}), client.Close, nil
}

func openRedisRate(_ context.Context, j Job) (middleware, func(), error) {
	client := redis.NewClient(&redis.Options{Addr: j.Redis})
	limiter := redis_rate.NewLimiter(client)
	rate := redis_rate.Limit{Rate: int(j.Permits), Burst: int(j.Permits), Period: j.Per}
	return byHand(func(ctx context.Context, key string) (verdict, error) {
		r, err := limiter.Allow(ctx, key, rate)
		if err != nil {
			return verdict{}, err
		}
		reset := r.ResetAfter
		if r.Allowed == 0 {
			reset = r.RetryAfter
		}
		return verdict{allowed: r.Allowed > 0, limit: j.Permits, left: int64(r.Remaining), reset: reset}, nil
	}), func() { _ = client.Close() }, nil
}

func openUlule(_ context.Context, j Job) (middleware, func(), error) {
	client := redis.NewClient(&redis.Options{Addr: j.Redis})
	store, err := ululeredis.NewStore(client)
	if err != nil {
		_ = client.Close()
		return nil, nil, err
	}
	l := limiter.New(store, limiter.Rate{Period: j.Per, Limit: j.Permits})
	return byHand(func(ctx context.Context, key string) (verdict, error) {
		r, err := l.Get(ctx, key)
		return verdict{allowed: !r.Reached, limit: r.Limit, left: r.Remaining,
			reset: time.Until(time.Unix(r.Reset, 0))}, err
	}), func() { _ = client.Close() }, nil
}

// verdict is what a limiter says of a request.
type verdict struct {
	allowed     bool
	limit, left int64
	reset       time.Duration
}

// byHand is the middleware that a user writes around a limiter which has none for Redis. It tells
// the same with its answers as httplimit does.
func byHand(ask func(ctx context.Context, key string) (verdict, error)) middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			v, err := ask(r.Context(), key(r))
			if err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
			h, reset := w.Header(), strconv.FormatInt(int64((v.reset+time.Second-1)/time.Second), 10)
			h.Set("X-RateLimit-Limit", strconv.FormatInt(v.limit, 10))
			h.Set("X-RateLimit-Remaining", strconv.FormatInt(max(v.left, 0), 10))
			h.Set("X-RateLimit-Reset", reset)
			if !v.allowed {
				h.Set("Retry-After", reset)
				http.Error(w, "too many requests", http.StatusTooManyRequests)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}
