package promises

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// A limit that nobody used has no state at its shards. It can be lowered all the same while a node
// does not answer: the other shards keep what of their shares is to stay.
func TestAnUnusedLimitIsLoweredAlthoughANodeIsAway(t *testing.T) {
	t.Parallel()
	fl, posts := limittest.Proxied(t, 3)
	c := fl.Client(t)
	var limits []*shardlimit.Limiter
	for i := range 8 { // the record of some is kept elsewhere than on the node that stalls
		l := limittest.Limiter(t, c, fmt.Sprint("l", i), shardlimit.Limit{Permits: 900, Per: time.Hour, Shards: 3})
		limits = append(limits, l)
	}
	posts[0].Proxy.Stall(true)
	for _, l := range limits {
		var away *shardlimit.ShardError
		err := l.SetLimit(t.Context(), shardlimit.Limit{Permits: 300, Per: time.Hour, Shards: 3})
		if !errors.As(err, &away) || errors.Is(err, shardlimit.ErrUnavailable) {
			continue // not stored
		}
		var granted int64
		limittest.AwaitThat(t, "two of three shards serve their shares", func() bool {
			d, err := l.AllowUpTo(t.Context(), 300)
			if err == nil {
				granted += d.Granted
			}
			return granted >= 200
		})
		if granted > 200 {
			t.Errorf("%d of 200 granted", granted)
		}
		return
	}
	t.Error("no limit could be lowered")
}
