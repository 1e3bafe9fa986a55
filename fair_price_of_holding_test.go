package shardlimit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
)

// A refund says for how long the permits were held, counted from the grant and not from the start
// of the process.
func TestPermitsAreHeldSinceTheyWereGranted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter(t, bubbled(t, 1).client(t), "l", shardlimit.PerMinute(10))
		time.Sleep(time.Hour)
		d, err := l.Allow(t.Context())
		if err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
		time.Sleep(3 * time.Second)
		if held := d.HeldFor(); held < 3*time.Second || held > 4*time.Second {
			t.Errorf("the permit is taken to be held for %v", held)
		}
	})
}
