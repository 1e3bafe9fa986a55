package faults

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/history"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// forget makes a node lose what it remembers.
var forget = map[string]func(testing.TB, *limittest.ProxiedNode){
	"restarted empty": func(_ testing.TB, p *limittest.ProxiedNode) { p.Server.Kill(); p.Server.Restart() },
	"flushed":         func(tb testing.TB, p *limittest.ProxiedNode) { p.Do(tb, "FLUSHALL") },
	"a part deleted": func(tb testing.TB, p *limittest.ProxiedNode) {
		p.Do(tb, "EVAL", "return redis.call('DEL', unpack(redis.call('KEYS', '*}l:n:l')))", "0")
	},
}

// With quarantine the limit holds in every window, whatever the node forgets: by
// the history of all calls of two processes.
func TestQuarantineKeepsToTheLimit(t *testing.T) {
	t.Parallel()
	for name, lose := range forget {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limittest.KeepsTo(t, lossLimit, whileForgetting(t, lose, shardlimit.Quarantine))
		})
	}
}

// The same load with Resume goes over: the test above can fail.
func TestResumeExceedsTheLimitByWhatWasForgotten(t *testing.T) {
	t.Parallel()
	ops := whileForgetting(t, forget["flushed"], shardlimit.Resume)
	worst, ok := history.Check(lossLimit.Per, lossLimit.Permits, ops)
	if ok {
		t.Error("nothing went over although a node has forgotten its window")
	}
	if worst.Permits > 2*lossLimit.Permits {
		t.Errorf("a window holds %v, more than the limit and every share once more (%d)", worst, 2*lossLimit.Permits)
	}
}

var lossLimit = shardlimit.Limit{Permits: 40, Per: 1200 * time.Millisecond, Shards: 2}

// whileForgetting takes permits as fast as they come, makes both nodes forget,
// one after the other, and goes on until permits are granted again by both.
func whileForgetting(t *testing.T, lose func(testing.TB, *limittest.ProxiedNode),
	policy shardlimit.LossPolicy) []history.Op {
	fl, posts := limittest.Proxied(t, 2)
	limiters := fl.Group(t, 2, "l", lossLimit, limittest.AfterLoss(policy))
	limittest.Settled(t, limiters[0])
	calls := limittest.NewTraffic(t)
	calls.Dying, calls.Rest, calls.Nodding = true, time.Millisecond, 10*time.Millisecond
	calls.Start(3, limiters...)
	full := func() bool {
		st, err := limiters[0].Peek(t.Context())
		return err == nil && st.Used >= lossLimit.Permits*9/10
	}
	limittest.AwaitThat(t, "the window is full", full)
	for _, p := range posts {
		lose(t, p)
		limittest.AwaitThat(t, "the window is full again", full)
	}
	ops, err := calls.Stop() // both nodes may be seen as away for an instant
	if !limittest.Harmless(err) {
		t.Error(err)
	}
	return ops
}

// By default a shard that has lost its memory is shut if its window is no longer than a minute.
func TestAfterLossDefaultsByTheLengthOfTheWindow(t *testing.T) {
	for window, shut := range map[time.Duration]bool{
		time.Minute:                    true,
		time.Minute + time.Millisecond: false,
		31 * 24 * time.Hour:            false,
	} {
		limittest.RunInBubble(t, fmt.Sprint(window), 1, func(t *testing.T, fl limittest.Fleet) {
			l := fl.Limiter(t, shardlimit.Limit{Permits: 10, Per: window})
			limittest.MustGet(t, l, 1)
			fl.Bubble[0].Redis.Flush()
			d, err := l.Allow(t.Context())
			if err != nil || d.Allowed == shut || shut && d.RetryAfter < window*9/10 {
				t.Errorf("shut: %v wanted: %+v, %v", shut, d, err)
			}
		})
	}
}

// A shard that has lost its memory is told of, whichever call finds it: also one that asks for no
// permits. After a call for permits the record is stored again.
func TestALossIsNoticedByACallThatAsksForNoPermits(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, fl limittest.Fleet) {
		log, logs := logged(slog.LevelWarn)
		l, redis := fl.Limiter(t, shardlimit.PerMinute(100), logs), fl.Bubble[0].Redis
		limittest.MustGet(t, l, 1)
		time.Sleep(time.Second) // a shard that begins has the record read
		redis.Flush()
		limittest.Denied(t, l, 1)
		time.Sleep(time.Second)
		if !slices.ContainsFunc(redis.Keys(), isLayout) {
			t.Error("the record was not read again")
		}
		redis.Drop(func(key string) bool { return !isRecord(key) })
		limittest.Must(t, l.SetLimit(t.Context(), shardlimit.PerMinute(50)))
		if n := log.count("lost its memory"); n != 2 {
			t.Errorf("two losses are told %d times: %s", n, log)
		}
	})
}

// A process that never used the shard learns of the loss from the node's uptime
// and from how long the record says that the limit has existed.
func TestANewProcessNoticesTheRestartToo(t *testing.T) {
	limittest.InBubble(t, 3, func(t *testing.T, fl limittest.Fleet) { // two others have the record
		limit := shardlimit.Limit{Permits: 10, Per: time.Hour, Shards: 2}
		first := fl.Client(t, limittest.AfterLoss(shardlimit.Quarantine))
		l := limittest.Limiter(t, first, "l", limit)
		limittest.MustGet(t, l, 10)
		time.Sleep(10 * time.Second) // the limit is older than the seconds that uptimes are told in
		gone := limittest.Peek(t, l).Shards[0].Node
		first.Close()
		fl.Bubble[fl.Index(gone)].Redis.Restart()
		second := fl.Limiter(t, limit, limittest.AfterLoss(shardlimit.Quarantine))
		limittest.Settled(t, second)
		for range 5 {
			limittest.Denied(t, second, 1)
		}
		if s := limittest.ShardOn(t, limittest.Peek(t, second), gone); s.Quarantine < 58*time.Minute {
			t.Errorf("%+v", s)
		}
	})
}

// Of a shard in quarantine is told when that ends. One that nobody has called since then has its
// share with the next call, and so what is told to be free counts it.
func TestWhatAQuarantineShutIsTold(t *testing.T) {
	for _, a := range limittest.Algorithms {
		limittest.RunInBubble(t, a.String(), 2, func(t *testing.T, fl limittest.Fleet) {
			limit := shardlimit.Limit{Permits: 20, Per: time.Second, Shards: 2, Algorithm: a}
			l := fl.Limiter(t, limit)
			limittest.Settled(t, l)
			time.Sleep(10 * time.Second) // else nobody takes it for a loss
			limittest.DrainSlowly(t, l)
			fl.Bubble[0].Redis.Flush()
			fl.Bubble[0].Redis.Restart()
			for range 40 {
				_, _ = l.Allow(t.Context())
				time.Sleep(10 * time.Millisecond)
			}
			st := limittest.Peek(t, l)
			if max(st.Shards[0].Quarantine, st.Shards[1].Quarantine) <= time.Second {
				t.Errorf("no quarantine is told: %+v", st.Shards)
			}
			time.Sleep(5 * time.Second)
			st = limittest.Peek(t, l)
			d, err := l.AllowUpTo(t.Context(), limit.Permits)
			if err != nil || d.Granted != st.Remaining || d.Granted != limit.Permits {
				t.Errorf("%d are free, as told by %+v; %d are granted, %v", st.Remaining, st.Shards, d.Granted, err)
			}
		})
	}
}

// Where every shard of a limit is closed, because its node has lost its memory, callers pass who
// are to pass in an outage. The others are told when to come again.
func TestAClosedShardIsAnsweredByThePolicy(t *testing.T) {
	limit := shardlimit.Limit{Permits: 10, Per: time.Minute, Shards: 1}
	for what, family := range map[string]bool{"a limit": false, "a key": true} {
		for _, policy := range policies[:3] {
			limittest.RunInBubble(t, fmt.Sprint(what, ", ", policy), 1, func(t *testing.T, fl limittest.Fleet) {
				c := fl.Client(t, limittest.OnOutage(policy), limittest.AfterLoss(shardlimit.Quarantine))
				time.Sleep(5 * time.Minute)
				l := limittest.Limiter(t, c, "l", limit)
				if family {
					l = limittest.Family(t, c, "f", limit).Limiter("user")
				}
				limittest.MustGet(t, l, 1)
				time.Sleep(5 * time.Second)
				fl.Bubble[0].Redis.Restart()
				time.Sleep(time.Second)
				passes := policy != shardlimit.FailClosed
				for range 2 { // it asks, and then it knows
					d, err := l.Allow(t.Context())
					if err != nil || d.Allowed != passes || d.Degraded != passes {
						t.Errorf("%+v, %v", d, err)
					}
				}
				if err := l.Wait(limittest.Shortly(t, 10*time.Second)); passes != (err == nil) {
					t.Errorf("Wait: %v", err)
				}
			})
		}
	}
}
