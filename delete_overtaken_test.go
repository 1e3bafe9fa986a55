package shardlimit

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// What shards showed of a layout says nothing of the limit that is declared after it was deleted.
func TestALimitThatIsDeclaredAfterDeleteIsNotOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := miniredis.NewMiniRedis()
		redis.ClockTTL(true)
		c := joinedOn(t, redis, "l", Limit{Permits: 10, Per: time.Minute, Shards: 2})
		l, err := c.client.Limiter(t.Context(), "l", Limit{Permits: 10, Per: time.Minute, Shards: 2})
		if err != nil {
			t.Fatal(err)
		}
		// A change that was made while the server's clock was an hour ahead.
		c.register.Behind(time.Now().Add(time.Hour).UnixMicro())
		if err := l.Delete(t.Context()); err != nil {
			t.Fatal(err)
		}
		if l, err = c.client.Limiter(t.Context(), "l", Limit{Permits: 10, Per: time.Minute, Shards: 2}); err != nil {
			t.Fatal(err)
		}
		if d, err := l.AllowN(t.Context(), 10); err != nil || !d.Allowed || d.Degraded {
			t.Errorf("%+v, %v", d, err)
		}
	})
}
