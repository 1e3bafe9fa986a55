package shardlimit_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
)

func TestTryAcquireWaitsAsLongAsItMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter(t, bubbled(t, 1).client(t), "l", shardlimit.PerMinute(2))
		for name, c := range map[string]struct {
			used, n int64
			most    time.Duration
			want    bool
			took    time.Duration
		}{
			"at once":         {0, 2, 0, true, 0},
			"not now":         {2, 1, 0, false, 0},
			"not so soon":     {2, 1, 30 * time.Second, false, 0},
			"within its time": {2, 2, 2 * time.Minute, true, time.Minute},
		} {
			time.Sleep(2 * time.Minute)
			if c.used > 0 {
				if ok, err := l.TryAcquire(t.Context(), c.used, 0); !ok || err != nil {
					t.Fatalf("%v, %v", ok, err)
				}
			}
			began := time.Now()
			ok, err := l.TryAcquire(t.Context(), c.n, c.most)
			if took := time.Since(began).Round(time.Second); err != nil || ok != c.want || took != c.took {
				t.Errorf("%s: %v, %v after %s", name, ok, err, took)
			}
		}
		boom := errors.New("boom")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(boom) })
		if ok, err := l.TryAcquire(ctx, 2, time.Hour); ok || !errors.Is(err, boom) ||
			!errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v, %v", ok, err)
		}
		if _, err := l.TryAcquire(t.Context(), 3, time.Hour); !errors.Is(err, shardlimit.ErrExceedsLimit) {
			t.Errorf("more than there can be: %v", err)
		}
	})
}

// Who waits through an outage is served as soon as Redis is back, alone and in a Set; who does not
// hears of it at once.
func TestWaitThroughAnOutage(t *testing.T) {
	t.Parallel()
	for name, waits := range map[string]bool{"waits": true, "does not": false} {
		t.Run(name, func(t *testing.T) {
			f, posts := proxied(t, 1)
			c := f.client(t, func(cfg *shardlimit.Config) { cfg.WaitThroughOutage = waits })
			l := limiter(t, c, "l", shardlimit.PerHour(1000))
			posts[0].proxy.Stall(true)
			awaitThat(t, "the node is away", func() bool {
				_, err := l.Allow(t.Context())
				return errors.Is(err, shardlimit.ErrUnavailable)
			})
			done := make(chan error, 2)
			go func() { done <- l.Wait(t.Context()) }()
			go func() { done <- shardlimit.All(l).Wait(t.Context()) }()
			if !waits {
				for range 2 {
					if err := <-done; !errors.Is(err, shardlimit.ErrUnavailable) {
						t.Errorf("%v", err)
					}
				}
				return
			}
			awaitThat(t, "both have asked in vain", func() bool { return len(done) == 0 && l.Waiting() > 0 })
			posts[0].proxy.Stall(false)
			for range 2 {
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// A denial tells when another try can succeed, so that who obeys it does not ask all the time: of a
// closed limit what Allow says, and else what was heard last.
func TestWhenToTryAgainAfterTheTimeIsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, nodes := bubbledNodes(t, 1)
		f.punctual = true
		c, other := f.client(t, func(c *shardlimit.Config) { c.WaitThroughOutage = true }), f.client(t)
		closed := limiter(t, c, "closed", in(shardlimit.Closed, shardlimit.PerMinute(1)))
		if d, err := closed.AcquireWithin(t.Context(), 1, time.Second); err != nil || d.Allowed ||
			d.RetryAfter != 15*time.Second || d.Limit != 1 {
			t.Errorf("closed: %+v, %v", d, err)
		}
		l, rival := limiter(t, c, "l", shardlimit.PerMinute(1)), limiter(t, other, "l", shardlimit.PerMinute(1))
		mustGet(t, rival, 1)
		time.AfterFunc(time.Second, func() { mustReserve(t, rival, 1) }) // of what would be free in time
		d, err := l.AcquireWithin(t.Context(), 1, 65*time.Second)
		if err != nil || d.Allowed || d.RetryAfter < time.Minute || d.RetryAfter > 2*time.Minute {
			t.Errorf("used up by another process: %+v, %v", d, err)
		}
		time.Sleep(d.RetryAfter)
		mustGet(t, l, 1)
		nodes[0].down.Store(true)
		if d, err := l.AcquireWithin(t.Context(), 1, 2*time.Minute); err != nil || d.Allowed ||
			d.RetryAfter < time.Second/2 {
			t.Errorf("while no node answers: %+v, %v", d, err)
		}
	})
}
