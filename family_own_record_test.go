package shardlimit_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/extent"
)

// A family of which many keys were changed works on after its record was found as it had been a
// change earlier.
func TestAnOlderRecordWithManyOwnLimitsIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, servers := bubbledServers(t, 1)
		users := keyed(t, f.client(t), "users", shardlimit.PerHour(3))
		for i := range 80 {
			done(t, users.Limiter(fmt.Sprint("k", i)).SetLimit(t.Context(), shardlimit.PerHour(10)))
		}
		before := recordsOn(t, servers[0])
		done(t, users.Limiter("last").SetLimit(t.Context(), shardlimit.PerHour(11)))
		before.restore(servers[0])
		for range 30 { // in which the process looks at the record
			_, _ = users.Limiter("k0").Peek(t.Context())
			time.Sleep(time.Second)
		}
		for _, k := range []string{"new", "k7", "last"} {
			if d, err := users.Limiter(k).Allow(t.Context()); err != nil || !d.Allowed {
				t.Errorf("%s: %+v (%v)", k, d, err)
			}
		}
		done(t, users.Limiter("another").SetLimit(t.Context(), shardlimit.PerHour(7)))
		done(t, users.SetLimit(t.Context(), shardlimit.PerHour(4)))
		if n := users.Limiter("last").Limit().Permits; n != 11 {
			t.Errorf("the key that was changed last has %d permits", n)
		}
	})
}

// Keys may be changed again and again for ever, and have no more to remember after it.
func TestAKeyIsChangedEveryDay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		users := keyed(t, bubbled(t, 1).client(t), "users", shardlimit.PerDay(3))
		l := users.Limiter("ann")
		for day := range extent.Fewer(24) {
			done(t, l.SetLimit(t.Context(), shardlimit.PerDay(int64(10+day))))
			for range 4 {
				_, _ = l.Peek(t.Context())
				time.Sleep(6 * time.Hour)
			}
		}
	})
}

// While shards obey a later record than the one stored, nobody changes a family or one of its keys:
// a key would count without the shards that the record forgot.
func TestAFamilyIsNotChangedWhileItsShardsKnowBetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, servers := bubbledServers(t, 1)
		first := f.client(t)
		ann := keyed(t, first, "users", shardlimit.PerMinute(3)).Limiter("ann")
		allowed(t, ann, 1)
		before := recordsOn(t, servers[0])
		done(t, ann.SetLimit(t.Context(), shardlimit.PerMinute(10)))
		first.Close() // nobody knows the change but the key's shard
		before.restore(servers[0])

		users := keyed(t, f.client(t), "users", shardlimit.PerMinute(3))
		ann = users.Limiter("ann")
		_, _ = ann.Allow(t.Context())
		if err := ann.SetLimit(t.Context(), shardlimit.PerMinute(5)); !errors.Is(err, shardlimit.ErrUnavailable) {
			t.Errorf("the key: %v", err)
		}
		if err := users.SetLimit(t.Context(), shardlimit.PerMinute(5)); !errors.Is(err, shardlimit.ErrUnavailable) {
			t.Errorf("the family: %v", err)
		}
		for range 90 {
			_, _ = ann.Allow(t.Context())
			time.Sleep(time.Second)
		}
		done(t, ann.SetLimit(t.Context(), shardlimit.PerMinute(5)))
	})
}

func done(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
