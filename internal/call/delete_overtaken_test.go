package call

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/shardlimit/shardlimit/internal/limit"
)

// What shards showed of a layout says nothing of the limit that is declared after it was deleted.
func TestALimitThatIsDeclaredAfterDeleteIsNotOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := miniredis.NewMiniRedis()
		redis.ClockTTL(true)
		client, c := joinedOn(t, redis, "l", limit.Limit{Permits: 10, Per: time.Minute, Shards: 2})
		// A change that was made while the server's clock was an hour ahead.
		c.Register.Behind(time.Now().Add(time.Hour).UnixMicro())
		l := c.Limiter()
		if err := l.Delete(t.Context()); err != nil {
			t.Fatal(err)
		}
		c, err := client.Declare(t.Context(), Limiters, "l", limit.Limit{Permits: 10, Per: time.Minute, Shards: 2})
		if err != nil {
			t.Fatal(err)
		}
		l = c.Limiter()
		var d Decision
		if err := l.Allow(t.Context(), 10, false, &d); err != nil || !d.Allowed || d.Degraded {
			t.Errorf("%+v, %v", d, err)
		}
	})
}
