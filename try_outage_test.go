package shardlimit_test

import (
	"errors"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
)

// A node that is silent is an outage for TryAcquire, as for AllowN; it does not mean that permits
// do not come.
func TestTryAcquireTellsOfAnOutage(t *testing.T) {
	fl, posts := proxied(t, 1)
	l := limiter(t, fl.client(t, patientFor(100*time.Millisecond)), "l", shardlimit.PerSecond(5))
	settled(t, l)
	posts[0].server.Pause()
	defer posts[0].server.Resume()
	for range 3 {
		if ok, err := l.TryAcquire(t.Context(), 1, 5*time.Second); ok || !errors.Is(err, shardlimit.ErrUnavailable) {
			t.Errorf("%v, %v", ok, err)
		}
	}
}
