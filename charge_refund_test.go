package shardlimit_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
)

// A charge of which a part was free and the rest is owed goes back as a whole, once, where this
// process decides by itself: under every algorithm.
func TestARefundOfAChargeThatThisProcessCounted(t *testing.T) {
	for _, a := range algorithms {
		limit := shardlimit.Limit{Permits: 30, Per: time.Hour, Algorithm: a}
		givesBack := func(t *testing.T, l *shardlimit.Limiter, left func() int64) {
			t.Helper()
			mustGet(t, l, 20)
			d, err := l.Charge(t.Context(), 25) // of which 10 are free
			if err != nil || d.Granted != 25 || left() != 0 {
				t.Fatalf("%+v, %v; %d left", d, err, left())
			}
			for range 2 {
				if err := l.Refund(t.Context(), d); err != nil || left() != 10 {
					t.Errorf("%v; %d left, want 10", err, left())
				}
			}
		}
		t.Run(fmt.Sprint(a, "per participant"), func(t *testing.T) {
			inBubble(t, 1, func(t *testing.T, f fleet) {
				own := limit
				own.Scope = shardlimit.PerParticipant
				l := limiter(t, f.client(t), "l", own)
				givesBack(t, l, func() int64 { return peek(t, l).Remaining })
			})
		})
		t.Run(fmt.Sprint(a, "during an outage"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, nodes := bubbledNodes(t, 1)
				f.punctual = true
				l := limiter(t, f.client(t, onOutage(shardlimit.FailLocal)), "l", limit)
				settled(t, l)
				nodes[0].down.Store(true)
				givesBack(t, l, func() int64 {
					d, err := l.AllowUpTo(t.Context(), 30)
					if err != nil || !d.Degraded {
						t.Fatalf("%+v, %v", d, err)
					}
					if err := l.Refund(t.Context(), d); err != nil {
						t.Fatal(err)
					}
					return d.Granted
				})
			})
		})
	}
}
