package gateway

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/go-chi/httprate"
	"github.com/redis/go-redis/v9"
)

func openHTTPRate(_ context.Context, j Job) (middleware, func(), error) {
	client := redis.NewClient(&redis.Options{Addr: j.Redis})
	limit := httprate.LimitBy(int(j.Permits), j.Per, func(r *http.Request) (string, error) { return key(r), nil },
		httprate.WithLimitCounter(&counter{client: client}))
	return limit, func() { _ = client.Close() }, nil
}

// counter keeps httprate's counts in Redis: a number for each key and window. It pipelines what can
// be asked at once.
type counter struct {
	client *redis.Client
	window time.Duration
}

var _ httprate.LimitCounter = (*counter)(nil)

// Config tells how long a window is.
func (c *counter) Config(_ int, window time.Duration) { c.window = window }

// Increment counts one request.
func (c *counter) Increment(key string, current time.Time) error {
	return c.IncrementBy(key, current, 1)
}

// IncrementBy counts requests. A count is needed until the window after its own has ended.
func (c *counter) IncrementBy(key string, current time.Time, amount int) error {
	ctx, name := context.Background(), c.name(key, current) // httprate has no context to give
	_, err := c.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.IncrBy(ctx, name, int64(amount))
		p.PExpire(ctx, name, 3*c.window)
		return nil
	})
	return err
}

// Get reads the counts of two windows; what is not there is 0.
func (c *counter) Get(key string, current, previous time.Time) (now, before int, err error) {
	ctx := context.Background()
	var a, b *redis.StringCmd
	_, err = c.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		a, b = p.Get(ctx, c.name(key, current)), p.Get(ctx, c.name(key, previous))
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return 0, 0, err
	}
	if now, err = count(a); err != nil {
		return 0, 0, err
	}
	before, err = count(b)
	return now, before, err
}

func (c *counter) name(key string, window time.Time) string {
	return "httprate:" + key + ":" + strconv.FormatInt(window.Unix(), 10)
}

func count(c *redis.StringCmd) (int, error) {
	n, err := c.Int()
	if errors.Is(err, redis.Nil) {
		return 0, nil
	}
	return n, err
}
