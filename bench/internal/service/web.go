package service

import (
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/bench/internal/rival"
	"github.com/shardlimit/shardlimit/bench/internal/server"
	"github.com/shardlimit/shardlimit/httplimit"
)

// The names of web servers that are more than one of many.
const (
	None   = "no limiter"
	Refuse = "429 without a limiter" // every request; what the answer itself costs
	Bare   = "EVALSHA"
)

// keyHeader is the field of a request that has its key.
const keyHeader = "X-API-Key"

// middleware wraps a handler; end closes what it is connected with.
type middleware func(ctx context.Context, j Job) (limit func(http.Handler) http.Handler, end func(), err error)

// Web are net/http servers that answer two letters, each with another limiter before its handler.
func Web() []Kind {
	return []Kind{web(None, openNone), web(Bare, openBare), web("httplimit", openHTTPLimit),
		web("redis_rate", openRedisRate), web(Refuse, openRefuse)}
}

func web(name string, open middleware) Kind {
	return Kind{Name: name, dial: dialWeb, serve: func(ctx context.Context, j Job, listener net.Listener) error {
		limit, end, err := open(ctx, j)
		if err != nil {
			return err
		}
		defer end()
		answer := func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "ok\n") // a client that went away is its own affair
		}
		web := &http.Server{Handler: limit(http.HandlerFunc(answer))}
		context.AfterFunc(ctx, func() { _ = web.Close() })
		if err := web.Serve(listener); ctx.Err() == nil {
			return err
		}
		return nil
	}}
}

func key(r *http.Request) string { return r.Header.Get(keyHeader) }

func openNone(context.Context, Job) (func(http.Handler) http.Handler, func(), error) {
	return func(next http.Handler) http.Handler { return next }, func() {}, nil
}

// openRefuse answers every request with the fields that httplimit sets, all of them constants.
func openRefuse(context.Context, Job) (func(http.Handler) http.Handler, func(), error) {
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
func openBare(_ context.Context, j Job) (func(http.Handler) http.Handler, func(), error) {
	client, err := rueidis.NewClient(server.Option(j.Redis))
	if err != nil {
		return nil, nil, err
	}
	count, window := rueidis.NewLuaScript(bareScript), strconv.FormatInt(j.Per.Milliseconds(), 10)
	return byHand(j, func(ctx context.Context, key string) (left int64, reset time.Duration, err error) {
		n, err := count.Exec(ctx, client, []string{key}, []string{window}).AsInt64()
		return j.Permits - n, j.Per, err
	}), client.Close, nil
}

func openHTTPLimit(ctx context.Context, j Job) (func(http.Handler) http.Handler, func(), error) {
	client, err := shardlimit.New(rival.Config(j.Redis))
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

func openRedisRate(_ context.Context, j Job) (func(http.Handler) http.Handler, func(), error) {
	client := redis.NewClient(&redis.Options{Addr: j.Redis})
	limiter := redis_rate.NewLimiter(client)
	rate := redis_rate.Limit{Rate: int(j.Permits), Burst: int(j.Permits), Period: j.Per}
	return byHand(j, func(ctx context.Context, key string) (left int64, reset time.Duration, err error) {
		r, err := limiter.Allow(ctx, key, rate)
		switch {
		case err != nil:
			return 0, 0, err
		case r.Allowed == 0:
			return -1, r.RetryAfter, nil
		}
		return int64(r.Remaining), r.ResetAfter, nil
	}), func() { _ = client.Close() }, nil
}

// byHand is the middleware that a user writes around a limiter which has none for Redis. It tells
// the same with its answers as httplimit does. Below 0 left means denied.
func byHand(j Job, ask func(ctx context.Context, key string) (left int64, reset time.Duration,
	err error)) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			left, after, err := ask(r.Context(), key(r))
			if err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
			h, reset := w.Header(), strconv.FormatInt(int64((after+time.Second-1)/time.Second), 10)
			h.Set("X-RateLimit-Limit", strconv.FormatInt(j.Permits, 10))
			h.Set("X-RateLimit-Remaining", strconv.FormatInt(max(left, 0), 10))
			h.Set("X-RateLimit-Reset", reset)
			if left < 0 {
				h.Set("Retry-After", reset)
				http.Error(w, "too many requests", http.StatusTooManyRequests)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}
