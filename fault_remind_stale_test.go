package shardlimit_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/redissim"
)

// TestAStaleReminderEmptiesNoBucket: a process that was started hours after a loss takes permits of
// a bucket and gives them back, or the limit becomes a higher one. What it has heard of the bucket
// is not news to it.
func TestAStaleReminderEmptiesNoBucket(t *testing.T) {
	for _, algorithm := range []shardlimit.Algorithm{shardlimit.TokenBucket, shardlimit.LeakyBucket} {
		for _, per := range []time.Duration{0, time.Second, time.Hour / 10} {
			t.Run(fmt.Sprintf("%v, then 60 in %v", algorithm, per), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { staleReminder(t, algorithm, per) })
			})
		}
	}
}

// staleReminder is such a history: per is the window of the higher limit, 0 if there is none.
func staleReminder(t *testing.T, algorithm shardlimit.Algorithm, per time.Duration) {
	f, servers := bubbledServers(t, 1)
	limit := shardlimit.Limit{Permits: 60, Per: time.Hour, Algorithm: algorithm, Shards: 1}
	a := limiter(t, f.client(t), "l", limit)
	settled(t, a)
	upTo(t, a, 30)
	servers[0].Restart()
	upTo(t, a, 1)
	time.Sleep(3 * time.Hour)
	b := limiter(t, f.client(t), "l", limit)
	d, err := b.AllowN(t.Context(), 50)
	if err != nil || !d.Allowed {
		t.Fatal(d, err)
	}
	if limit.Per = per; per == 0 {
		if err := b.Refund(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	} else if err := a.SetLimit(t.Context(), limit); err != nil {
		t.Fatal(err)
	}
	free := peek(t, a).Remaining
	time.Sleep(30 * time.Second)
	if now := peek(t, a).Remaining; now < free ||
		algorithm == shardlimit.TokenBucket && per == time.Second && now < 60 {
		t.Errorf("%d permits were free, and half a minute later %d", free, now)
	}
}

// TestAProcessRemindsNoMoreThanItHasTo counts the script calls of limits that rest after something
// was granted, and of some that are called now and then.
func TestAProcessRemindsNoMoreThanItHasTo(t *testing.T) {
	const limits = 30
	for _, c := range []struct {
		name   string
		befall func(t *testing.T, s *redissim.Server, all []*shardlimit.Limiter)
		most   int64 // script calls in ten minutes then
	}{
		{"nothing happens", func(*testing.T, *redissim.Server, []*shardlimit.Limiter) {}, 10 * 60 / 7},
		{"all but one are called after a loss", func(t *testing.T, s *redissim.Server, all []*shardlimit.Limiter) {
			s.Restart()
			for _, l := range all[1:] {
				upTo(t, l, 1)
			}
		}, 2 * 10 * 60 / 7},
		{"windows become short", func(t *testing.T, _ *redissim.Server, all []*shardlimit.Limiter) {
			for _, l := range all {
				short := l.Limit()
				short.Per = 100 * time.Millisecond
				if err := l.SetLimit(t.Context(), short); err != nil {
					t.Fatal(err)
				}
			}
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, servers := bubbledServers(t, 1)
				client := f.client(t)
				all := make([]*shardlimit.Limiter, limits)
				for i := range all {
					limit := shardlimit.Limit{Permits: 60, Per: 24 * time.Hour,
						Algorithm: algorithms[i%len(algorithms)], Shards: 1}
					all[i] = limiter(t, client, fmt.Sprint("l", i), limit)
					upTo(t, all[i], 20)
				}
				time.Sleep(time.Second)
				c.befall(t, servers[0], all)
				time.Sleep(time.Minute)
				before := servers[0].Scripts.Load()
				time.Sleep(10 * time.Minute)
				if n := servers[0].Scripts.Load() - before; n > c.most {
					t.Errorf("%d script calls in ten minutes, want at most %d", n, c.most)
				}
			})
		})
	}
}

// TestRareCallsAreNotDoubled: half a minute between two calls of a limit is not a loss: others of
// the server are heard of meanwhile. Windows of a minute are not reminded at all.
func TestRareCallsAreNotDoubled(t *testing.T) {
	calls := make(map[time.Duration]int64)
	for _, per := range []time.Duration{time.Minute, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			f, servers := bubbledServers(t, 1)
			client := f.client(t)
			all := make([]*shardlimit.Limiter, 50)
			for i := range all {
				all[i] = limiter(t, client, fmt.Sprint("l", i), shardlimit.Limit{Permits: 1000, Per: per, Shards: 1})
				upTo(t, all[i], 1)
			}
			before := servers[0].Scripts.Load()
			for range 10 {
				for _, l := range all {
					upTo(t, l, 1)
					time.Sleep(600 * time.Millisecond)
				}
			}
			calls[per] = servers[0].Scripts.Load() - before
		})
	}
	if more := calls[time.Hour] - calls[time.Minute]; more > 50 {
		t.Errorf("%d script calls for 500 calls, %d more than for windows that are not reminded", calls[time.Hour],
			more)
	}
}
