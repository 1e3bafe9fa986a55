package faults

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/race"
)

// paced returns two limiters of a limit of 40 an hour, of which the first is paced for more than
// five minutes, and what the other was granted.
func paced(t *testing.T) (a, b *shardlimit.Limiter, granted []shardlimit.Decision) {
	f := limittest.Bubbled(t, 1)
	limit := shardlimit.Limit{Permits: 40, Per: time.Hour, Shards: 1}
	a, b = f.Limiter(t, limit), f.Limiter(t, limit)
	for range 4000 {
		_, _ = a.Allow(t.Context())
		if d, _ := b.Allow(t.Context()); d.Allowed {
			granted = append(granted, d)
		}
		time.Sleep(3 * time.Second)
		if limittest.Paced(a) > 5*time.Minute {
			return a, b, granted
		}
	}
	t.Fatal("nobody was paced")
	return nil, nil, nil
}

// A participant that is paced for long hears of what makes room for it.
func TestAPacedParticipantHearsOfRoom(t *testing.T) {
	for name, c := range map[string]struct {
		room func(t *testing.T, b *shardlimit.Limiter, granted []shardlimit.Decision) error
		most time.Duration // until it is served
	}{
		"a limit that was raised": {func(t *testing.T, b *shardlimit.Limiter, _ []shardlimit.Decision) error {
			return b.SetLimit(t.Context(), shardlimit.Limit{Permits: 4000, Per: time.Hour, Shards: 1})
		}, 20 * time.Second},
		"a limit that was reset": {func(t *testing.T, b *shardlimit.Limiter, _ []shardlimit.Decision) error {
			return b.Reset(t.Context())
		}, time.Hour/16 + 2*time.Second},
		"refunds": {func(t *testing.T, b *shardlimit.Limiter, granted []shardlimit.Decision) error {
			for _, d := range granted {
				if err := b.Settle(t.Context(), d, 0); err != nil {
					return err
				}
			}
			return nil
		}, time.Hour/16 + 2*time.Second},
	} {
		for _, waits := range []bool{false, true} {
			if race.Enabled && !waits {
				continue // it asks again and again
			}
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					a, b, granted := paced(t)
					limittest.Must(t, c.room(t, b, granted))
					begun := time.Now()
					if waits {
						limittest.Must(t, a.Wait(t.Context()))
					} else {
						for d, err := a.Allow(t.Context()); err != nil || !d.Allowed; d, err = a.Allow(t.Context()) {
							if err != nil {
								t.Fatal(err)
							}
							time.Sleep(time.Second)
						}
					}
					if took := time.Since(begun); took > c.most {
						t.Errorf("waits %v: served after %s, want %s at the most", waits, took, c.most)
					}
				})
			})
		}
	}
}

// One that asks all the time counts as a participant, also while it is answered from memory. Else
// FailLocal would divide the limit among too few.
func TestAPacedParticipantIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, _ := paced(t)
		for range 60 {
			_, _ = a.Allow(t.Context())
			_, _ = b.Allow(t.Context())
			time.Sleep(2 * time.Second)
		}
		if n := limittest.Peek(t, b).Participants; n != 2 {
			t.Errorf("%d participants, want 2", n)
		}
	})
}

// A key that expired while this machine was suspended was not lost by its server.
func TestAKeyThatExpiredInASleepIsServed(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		c := f.Client(t)
		k := limittest.Family(t, c, "users", shardlimit.Limit{Permits: 5, Per: 30 * time.Second}).Limiter("k")
		time.Sleep(2 * time.Minute) // the server is up for long
		for _, rest := range []time.Duration{0, 10 * time.Minute} {
			time.Sleep(rest)
			limittest.Suspend(c, rest)
			limittest.MustGet(t, k, 1)
		}
	})
}
