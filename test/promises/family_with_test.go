package promises

import (
	"errors"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// revised is a limit at a revision.
func revised(l shardlimit.Limit, revision int64) shardlimit.Limit {
	l.Revision = revision
	return l
}

// hasLeft takes the permits that there are, which must be so many.
func hasLeft(t *testing.T, l *shardlimit.Limiter, n int) {
	t.Helper()
	if got := limittest.Grants(t, l); got != n {
		t.Errorf("%d permits, not %d", got, n)
	}
}

// Of two processes whose limits for a key differ, the one of the higher revision decides, and what
// was used counts. A higher limit is felt by the next call.
func TestTheNewestLimitOfAKeyHolds(t *testing.T) {
	t.Parallel()
	limittest.OnEither(t, func(t *testing.T, f limittest.Fleet) {
		for a := shardlimit.SlidingLog; a <= shardlimit.FixedWindow; a++ {
			limit := func(permits, revision int64) shardlimit.Limit {
				return shardlimit.Limit{Permits: permits, Per: time.Hour, Algorithm: a, Revision: revision}
			}
			here := limittest.Family(t, f.Client(t), a.String(), limit(3, 0))
			there := limittest.Family(t, f.Client(t), a.String(), limit(3, 0))
			hasLeft(t, here.Limiter("ann"), 3)
			hasLeft(t, there.LimiterWith("ann", limit(10, 5)), 7)
			if d := limittest.Denied(t, here.LimiterWith("ann", limit(8, 4)), 1); d.Limit != 10 {
				t.Errorf("%v: a caller that is behind got %+v", a, d)
			}
			hasLeft(t, here.LimiterWith("ann", limit(12, 6)), 2)
			hasLeft(t, there.LimiterWith("ann", limit(10, 5)), 0)
			hasLeft(t, there.LimiterWith("bob", limit(4, 0)), 4) // of one revision the last one decides
			hasLeft(t, here.LimiterWith("bob", limit(6, 0)), 2)
			hasLeft(t, here.Limiter("eve"), 3)
		}
	})
}

// A lower limit holds in every window that begins after the call that brought it, whoever calls.
func TestALowerLimitOfAKeyHoldsInEveryWindow(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		users, other := f.Family(t, shardlimit.PerMinute(60)), f.Family(t, shardlimit.PerMinute(60))
		hasLeft(t, users.Limiter("ann"), 60)
		time.Sleep(50 * time.Second)
		lower := users.LimiterWith("ann", revised(shardlimit.PerMinute(5), 1))
		hasLeft(t, lower, 0)
		time.Sleep(11 * time.Second)
		hasLeft(t, other.Limiter("ann"), 5) // it knows of nothing
		time.Sleep(59 * time.Second)
		hasLeft(t, other.Limiter("ann"), 0)
		time.Sleep(2 * time.Second)
		hasLeft(t, other.Limiter("ann"), 5)
	})
}

// More than the limit of a higher revision has is refused, as more than the own limit has. While
// the shard is known to be empty, a denial from memory may tell when it is worth to ask.
func TestMoreThanTheLimitInForceIsRefused(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		users := f.Family(t, shardlimit.PerMinute(100))
		hasLeft(t, users.LimiterWith("ann", revised(shardlimit.PerMinute(2), 2)), 2)
		behind := users.Limiter("ann")
		for round := range 3 {
			d, err := behind.AllowN(t.Context(), 50)
			if later := round > 0 && err == nil && !d.Allowed && d.RetryAfter > time.Second; !later &&
				!errors.Is(err, shardlimit.ErrExceedsLimit) {
				t.Errorf("%+v (%v)", d, err)
			}
			limittest.ErrorIs(t, limittest.Err(behind.Reserve(t.Context(), 50)), shardlimit.ErrExceedsLimit)
			limittest.ErrorIs(t, behind.WaitN(t.Context(), 50), shardlimit.ErrExceedsLimit)
		}
	})
}

// A limit that cannot come with a call is refused before anything is sent. A burst can.
func TestALimitThatCannotComeWithACall(t *testing.T) {
	bucket := shardlimit.Limit{Permits: 10, Per: time.Minute, Algorithm: shardlimit.TokenBucket, Burst: 20}
	users := limittest.InProcess(t, 1).Family(t, bucket)
	limittest.MustGet(t, users.LimiterWith("ann", users.Limit()), 20)
	limittest.MustGet(t, users.LimiterWith("bob", shardlimit.PerMinute(5)), 5)
	changed := func(change func(*shardlimit.Limit)) shardlimit.Limit {
		l := bucket
		change(&l)
		return l
	}
	for name, limit := range map[string]shardlimit.Limit{
		"none at all":       {},
		"no permits":        changed(func(l *shardlimit.Limit) { l.Permits = 0 }),
		"another algorithm": changed(func(l *shardlimit.Limit) { l.Algorithm, l.Burst = shardlimit.LeakyBucket, 0 }),
		"another scope":     changed(func(l *shardlimit.Limit) { l.Scope = shardlimit.PerParticipant }),
		"shards":            changed(func(l *shardlimit.Limit) { l.Shards = 2 }),
		"a lease":           changed(func(l *shardlimit.Limit) { l.Lease = time.Second }),
		"a longer window":   changed(func(l *shardlimit.Limit) { l.Per = time.Hour }),
		"fills for longer":  changed(func(l *shardlimit.Limit) { l.Burst = 21 }),
		"unknown mode":      changed(func(l *shardlimit.Limit) { l.Mode = 9 }),
		"negative revision": changed(func(l *shardlimit.Limit) { l.Revision = -1 }),
		"huge revision":     changed(func(l *shardlimit.Limit) { l.Revision = shardlimit.MaxRevision + 1 }),
	} {
		ann := users.LimiterWith("ann", limit)
		limittest.ErrorIs(t, limittest.Err(ann.Allow(t.Context())), shardlimit.ErrInvalidLimit, name)
	}
	smaller := changed(func(l *shardlimit.Limit) { l.Burst = 2 })
	hasLeft(t, users.LimiterWith("eve", smaller), 2)
	limittest.ErrorIs(t, limittest.Err(users.LimiterWith("", bucket).Allow(t.Context())), shardlimit.ErrInvalidName)
	limittest.ErrorIs(t, users.Limiter("ann").SetLimit(t.Context(), bucket), shardlimit.ErrFamilyLimit)
	limittest.ErrorIs(t, users.Limiter("ann").Delete(t.Context()), shardlimit.ErrFamilyLimit, "Delete of a key")
	leased := shardlimit.Limit{Permits: 5, Per: time.Minute, Lease: time.Second}
	limittest.ErrorIs(t, users.SetLimit(t.Context(), leased), shardlimit.ErrInvalidLimit, "a lease of a family")
}

// A limiter that brings a limit of another Per than the family has by now goes by the family's:
// what was used counts, whatever the window was.
func TestALimitOfAPerThatTheFamilyHadGivesWay(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		here, there := f.Family(t, shardlimit.PerMinute(60)), f.Family(t, shardlimit.PerMinute(60))
		old := here.LimiterWith("ann", revised(shardlimit.PerMinute(100), 7))
		hasLeft(t, old, 100)
		more := 0
		limittest.Must(t, there.SetLimit(t.Context(), shardlimit.PerHour(300)))
		for range 10 { // a process in use hears of it
			time.Sleep(time.Second)
			more += limittest.Grants(t, old)
		}
		if more != 200 {
			t.Errorf("%d more, not 200, whatever the revision of the former limit was", more)
		}
		time.Sleep(2 * time.Minute)
		hasLeft(t, old, 0) // 300 an hour, and no more 100 a minute
		another := here.LimiterWith("ann", shardlimit.PerMinute(100))
		limittest.ErrorIs(t, limittest.Err(another.Allow(t.Context())), shardlimit.ErrInvalidLimit)
		hasLeft(t, here.LimiterWith("ann", revised(shardlimit.Limit{Permits: 350}, 8)), 50)
	})
}

// A caller that brings another limit for a key hears of a Reset of it, and of a Settle of its own
// decision by another limiter.
func TestALimitForAKeyHearsOfOthers(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		family := limittest.Family(t, f.Client(t), "f", shardlimit.PerHour(2))
		plain, with := family.Limiter("k"), family.LimiterWith("k", shardlimit.Limit{Permits: 1, Revision: 1})
		for name, ease := range map[string]func(shardlimit.Decision) error{
			"Reset":  func(shardlimit.Decision) error { return plain.Reset(t.Context()) },
			"Settle": func(d shardlimit.Decision) error { return plain.Settle(t.Context(), d, 0) },
		} {
			limittest.Must(t, plain.Reset(t.Context()))
			d := limittest.MustGet(t, with, 1)
			began, waited := time.Now(), make(chan error, 1)
			go func() { waited <- with.Wait(t.Context()) }()
			time.Sleep(time.Second)
			limittest.Must(t, ease(d))
			if err := <-waited; err != nil || time.Since(began) > 5*time.Second {
				t.Errorf("%s: %v after %s", name, err, time.Since(began))
			}
		}
	})
}
