package waiting

import (
	"errors"
	"testing"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// Who waits through an outage is served as soon as Redis is back, alone and in a Set; who does not
// hears of it at once.
func TestWaitOutAnOutage(t *testing.T) {
	t.Parallel()
	for name, waits := range map[string]shardlimit.OutagePolicy{"waits": shardlimit.WaitOut,
		"does not": shardlimit.FailClosed} {
		t.Run(name, func(t *testing.T) {
			f, posts := limittest.Proxied(t, 1)
			c := f.Client(t, func(cfg *shardlimit.Config) { cfg.OnOutage = waits })
			l := limittest.Limiter(t, c, "l", shardlimit.PerHour(1000))
			posts[0].Proxy.Stall(true)
			limittest.AwaitThat(t, "the node is away", func() bool {
				_, err := l.Allow(t.Context())
				return errors.Is(err, shardlimit.ErrUnavailable)
			})
			done := make(chan error, 2)
			go func() { done <- l.Wait(t.Context()) }()
			go func() { done <- limittest.Set(1, l).Wait(t.Context()) }()
			if waits != shardlimit.WaitOut {
				for range 2 {
					if err := <-done; !errors.Is(err, shardlimit.ErrUnavailable) {
						t.Errorf("%v", err)
					}
				}
				return
			}
			limittest.AwaitThat(t, "both have asked in vain",
				func() bool { return len(done) == 0 && limittest.Waiting(l) > 0 })
			posts[0].Proxy.Stall(false)
			for range 2 {
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
		})
	}
}
