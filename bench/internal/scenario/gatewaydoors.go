package scenario

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/go-chi/httprate"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/bench/internal/rival"
	"github.com/shardlimit/shardlimit/bench/internal/server"
	"github.com/shardlimit/shardlimit/bench/internal/web"
	"github.com/shardlimit/shardlimit/httplimit"
)

// middleware wraps a handler.
type middleware = func(http.Handler) http.Handler

// door is a limiter in front of a handler.
type door struct {
	name   string
	rival  string // whose it is, to be picked by flags; "": always there
	denied bool   // one key, used up
	open   func(ctx context.Context, addr string, limit rival.Limit) (middleware, func(), error)
}

// label is the door's row, and column its column.
func (d door) label() string {
	if d.denied {
		return "httplimit"
	}
	return d.name
}

func (d door) column() float64 {
	if d.denied {
		return 1
	}
	return 0
}

func (d door) limit() rival.Limit {
	if d.denied {
		return gatewayUsedUp
	}
	return gatewayNever
}

// doors are all of them.
func doors() []door {
	all := []door{
		{name: "none", open: func(context.Context, string, rival.Limit) (middleware, func(), error) {
			return func(next http.Handler) http.Handler { return next }, func() {}, nil
		}},
		{name: gatewayBase, open: openCounter},
		{name: "httplimit", rival: rival.Shardlimit.Name, open: openHTTPLimit},
		{name: "httplimit denied", rival: rival.Shardlimit.Name, denied: true, open: openHTTPLimit},
		{name: "httprate", open: openHTTPRate},
	}
	for _, r := range rival.All() {
		if r.Name == "redis_rate" || r.Name == "ulule" {
			all = append(all, door{name: r.Name, rival: r.Name, open: openRival(r)})
		}
	}
	return all
}

func openHTTPLimit(ctx context.Context, addr string, limit rival.Limit) (middleware, func(), error) {
	client, err := shardlimit.New(shardlimit.Config{
		Nodes:       []shardlimit.Node{{Name: "node-0", Redis: server.Option(addr)}},
		CallTimeout: time.Second, // on a loaded machine the default would be a race with the scheduler
	})
	if err != nil {
		return nil, nil, err
	}
	users, err := client.Family(ctx, "users", shardlimit.Limit{Permits: limit.Permits, Per: limit.Per})
	if err != nil {
		client.Close()
		return nil, nil, err
	}
	key := func(r *http.Request) string { return r.Header.Get(web.KeyHeader) }
	return httplimit.New(httplimit.PerKey(users, key), httplimit.Options{}), client.Close, nil
}

// openRival asks a rival in a handler, as its documentation shows.
func openRival(r rival.Rival) func(context.Context, string, rival.Limit) (middleware, func(), error) {
	return func(ctx context.Context, addr string, limit rival.Limit) (middleware, func(), error) {
		h, err := r.Open(ctx, addr, limit)
		if err != nil {
			return nil, nil, err
		}
		allow, err := rival.Keys(ctx, h, "users")
		if err != nil {
			h.Close()
			return nil, nil, err
		}
		return byHand(allow), h.Close, nil
	}
}

// byHand is the middleware that a program writes around a limiter.
func byHand(allow rival.AllowKey) middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ok, err := allow(r.Context(), r.Header.Get(web.KeyHeader))
			switch {
			case err != nil:
				http.Error(w, "the limiter failed", http.StatusServiceUnavailable)
			case !ok:
				http.Error(w, "too many requests", http.StatusTooManyRequests)
			default:
				next.ServeHTTP(w, r)
			}
		})
	}
}

// openCounter runs a script for each request that counts, in a window of its own for each key.
func openCounter(_ context.Context, addr string, limit rival.Limit) (middleware, func(), error) {
	client, err := rueidis.NewClient(server.Option(addr))
	if err != nil {
		return nil, nil, err
	}
	count := rueidis.NewLuaScript(`local n = redis.call('INCR', KEYS[1])
if n == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
return n`)
	per := strconv.FormatInt(limit.Per.Milliseconds(), 10)
	return byHand(func(ctx context.Context, key string) (bool, error) {
		n, err := count.Exec(ctx, client, []string{"count:" + key}, []string{per}).AsInt64()
		return n <= limit.Permits, err
	}), client.Close, nil
}

// counters are the counters of httprate in Redis.
type counters struct {
	client *redis.Client
	window time.Duration
}

func openHTTPRate(_ context.Context, addr string, limit rival.Limit) (middleware, func(), error) {
	c := &counters{client: redis.NewClient(&redis.Options{Addr: addr})}
	key := func(r *http.Request) (string, error) { return r.Header.Get(web.KeyHeader), nil }
	return httprate.LimitBy(int(limit.Permits), limit.Per, key, httprate.WithLimitCounter(c)),
		func() { _ = c.client.Close() }, nil
}

func (c *counters) Config(_ int, window time.Duration) { c.window = window }

func (c *counters) Increment(key string, current time.Time) error {
	return c.IncrementBy(key, current, 1)
}

func (c *counters) IncrementBy(key string, current time.Time, amount int) error {
	ctx, name := context.Background(), counterKey(key, current)
	_, err := c.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.IncrBy(ctx, name, int64(amount))
		p.Expire(ctx, name, 3*c.window)
		return nil
	})
	return err
}

func (c *counters) Get(key string, current, previous time.Time) (now, before int, err error) {
	found, err := c.client.MGet(context.Background(), counterKey(key, current), counterKey(key, previous)).Result()
	if err != nil {
		return 0, 0, err
	}
	var counts [2]int
	for i, v := range found {
		if text, ok := v.(string); ok {
			n, bad := strconv.Atoi(text)
			counts[i], err = n, errors.Join(err, bad)
		}
	}
	return counts[0], counts[1], err
}

func counterKey(key string, window time.Time) string {
	return "httprate:" + strconv.FormatUint(httprate.LimitCounterKey(key, window), 36)
}
