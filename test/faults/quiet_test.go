package faults

import (
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// While all nodes are well the log has no warning: not while processes start at the same time, not
// while they work, and not when they end.
func TestNothingIsWarnedOfWhileAllIsWell(t *testing.T) {
	t.Parallel()
	for place, at := range limittest.Places {
		t.Run(place, func(t *testing.T) {
			f := at(t)
			var log syncBuffer
			logs := func(c *shardlimit.Config) {
				c.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
			}
			var wg sync.WaitGroup
			for i := range 5 {
				wg.Go(func() {
					c := f.Client(t, logs)
					l := limittest.Limiter(t, c, "l", shardlimit.PerSecond(10_000))
					users := limittest.Family(t, c, "users", shardlimit.PerSecond(100))
					for j := range 200 {
						_, err := l.Allow(t.Context())
						_, keyErr := users.Limiter(fmt.Sprint("user ", i*j)).Allow(t.Context())
						if err != nil || keyErr != nil {
							t.Errorf("%v, %v", err, keyErr)
						}
					}
					c.Close()
				})
			}
			wg.Wait()
			if log.count("\n") > 0 {
				t.Errorf("it warns: %s", log.buf.String())
			}
		})
	}
}
