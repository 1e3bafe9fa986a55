package script

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/shardlimit/shardlimit/internal/redistest"
)

// TestARaiseIsFeltAtOnce: one permit a minute is taken. Six seconds later the limit is raised, or
// its window becomes shorter, and the next permit comes as if the new rate had been there when the
// last one was given: no date that was computed from the old rate holds it up. A token bucket gains
// at the new rate from the change on.
func TestARaiseIsFeltAtOnce(t *testing.T) {
	m, client := miniredis.RunT(t), redistest.Standalone(t).Client(t)
	for name, change := range map[string]struct {
		permits int64
		window  time.Duration
		wait    map[Algorithm]time.Duration
	}{
		"raised": {permits: 100, window: time.Minute, wait: map[Algorithm]time.Duration{
			AlgorithmTokenBucket: 600 * time.Millisecond,
		}},
		"shorter": {permits: 1, window: 10 * time.Second, wait: map[Algorithm]time.Duration{
			AlgorithmSlidingLog: 4 * time.Second, AlgorithmSlidingCounter: 4 * time.Second,
			AlgorithmFixedWindow: 4 * time.Second, // to the edge
			AlgorithmTokenBucket: 10 * time.Second, AlgorithmLeakyBucket: 4 * time.Second,
		}},
	} {
		for _, a := range allAlgorithms {
			ref := a.Keys(redistest.Prefix(t), "t", name)
			for where, shard := range map[string]cancelShard{
				"twin":      NewTwin(a),
				"miniredis": served{t, emulated{server: m, endpoint: NewEndpoint(miniClient(t, m)), ref: ref}},
				"redis":     served{t, clocked{client: client, uptime: 1_000_000, ref: ref}},
			} {
				ask := func(epoch, permits int64, window time.Duration, now int64) TakeReply {
					return shard.Take(now, ones(terms(t, Terms{
						Epoch: epoch, Target: permits, Floor: permits, Window: window, Algorithm: a,
					}), 1))
				}
				now := int64(epoch0)
				if r := ask(1, 1, time.Minute, now); r.Granted != 1 || r.Delay != 0 {
					t.Fatalf("%v on %s: %+v", a, where, r)
				}
				now += 6_000_000
				wait := change.wait[a]
				if r := ask(2, change.permits, change.window, now); wait > 0 && r.Retry != wait ||
					(r.Granted == 1) != (wait == 0) || r.Delay != 0 {
					t.Errorf("%s, %v on %s: wait %s, want %s: %+v", name, a, where, r.Retry, wait, r)
				}
				now += int64(wait / time.Microsecond)
				if wait == 0 {
					continue
				}
				if r := ask(2, change.permits, change.window, now-1); r.Granted != 0 {
					t.Errorf("%s, %v on %s, too early: %+v", name, a, where, r)
				}
				if r := ask(2, change.permits, change.window, now); r.Granted != 1 || r.Delay != 0 {
					t.Errorf("%s, %v on %s, when it was to come: %+v", name, a, where, r)
				}
			}
		}
	}
}

// TestTheNextTurnIsAnIntervalAfterTheLast: turns given ahead stay, and those that follow come at
// the rate that is in force when they are given, raised or lowered.
func TestTheNextTurnIsAnIntervalAfterTheLast(t *testing.T) {
	for where, shard := range bucketServers(t, AlgorithmLeakyBucket) {
		twin := NewTwin(AlgorithmLeakyBucket)
		for i, step := range []struct {
			permits, take int64
			first         time.Duration // of them, after the beginning
		}{
			{10, 5, 0}, // 0 to 4 s
			{100, 2, 4100 * time.Millisecond},
			{1, 1, 14200 * time.Millisecond}, // once the queue is empty
		} {
			now := int64(epoch0)
			if step.permits == 1 {
				now += 4_300_000
			}
			request := ones(terms(t, Terms{Epoch: int64(i + 1), Target: step.permits, Floor: step.permits,
				Window: 10 * time.Second, Burst: 100, Algorithm: AlgorithmLeakyBucket}), step.take)
			want := twin.Take(now, request)
			got, err := shard.take(now, request)
			act := now - epoch0 + int64(want.Delay/time.Microsecond)
			if err != nil || want.Granted != step.take || duration(act) != step.first || got.Granted != want.Granted ||
				got.Delay != want.Delay {
				t.Errorf("%s, step %d: the first after %s, %v\ntwin   %+v\nserver %+v", where, i, duration(act), err, want,
					got)
			}
		}
	}
}
