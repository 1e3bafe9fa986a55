package shardlimit_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/history"
)

// This file is about the mark that a layout bears once permits are reserved ahead.

// The first reservation of a limit waits for the mark: also where a call takes long, and for no
// longer than a call may take.
func TestTheFirstReservationWaitsForTheMark(t *testing.T) {
	for _, rtt := range []time.Duration{time.Millisecond, 10 * time.Millisecond, 40 * time.Millisecond} {
		t.Run(rtt.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fl, nodes := bubbledNodes(t, 3)
				fl.punctual = true
				l := limiter(t, fl.client(t), "l", shardlimit.Limit{Permits: 100, Per: time.Minute, Shards: 1,
					Failover: true})
				settled(t, l)
				drain(t, l)
				for _, n := range nodes {
					n.stuck.Store(int64(rtt))
				}
				refused := 0
				for range 20 {
					began := time.Now()
					if _, err := l.Reserve(t.Context(), 1); err != nil {
						refused++
					}
					if took := time.Since(began); took > 110*time.Millisecond {
						t.Errorf("a call took %v", took)
					}
					time.Sleep(100 * time.Millisecond)
				}
				if most := 2; refused > most || refused > 0 && rtt <= 10*time.Millisecond {
					t.Errorf("%d of 20 reservations were refused", refused)
				}
			})
		})
	}
}

// A reservation during a takeover succeeds, and does not make it longer: nothing was reserved on
// what is taken over.
func TestTheFirstReservationDuringATakeoverDoesNotProlongIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fl, nodes := bubbledNodes(t, 4)
		fl.punctual = true
		limit := shardlimit.Limit{Permits: 400, Per: time.Minute, Shards: 4, Failover: true}
		l := limiter(t, fl.client(t), "l", limit)
		settled(t, l)
		nodes[3].down.Store(true)
		lost := time.Now()
		reserved := false
		for time.Since(lost) < 5*time.Minute {
			if _, err := l.Allow(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !reserved && time.Since(lost) > 20*time.Second {
				d, err := l.AllowUpTo(t.Context(), limit.Permits)
				if err != nil || d.Granted == 0 {
					t.Fatalf("%+v, %v", d, err)
				}
				if _, err := l.Reserve(t.Context(), 1); err != nil {
					t.Errorf("a reservation during the takeover: %v", err)
				}
				reserved = true
			}
			if st, _ := l.Peek(t.Context()); reserved && st.Settled && len(hosts(st)) == 3 {
				break
			}
			time.Sleep(200 * time.Millisecond)
		}
		if took := time.Since(lost); took > 5*time.Second+time.Minute+10*time.Second {
			t.Errorf("the takeover took %v", took)
		}
	})
}

// A process that rested while the queue of a bucket was made shorter takes no turn farther ahead
// than the new one has: a takeover does not wait for more.
func TestWhoRestedTakesTurnsByTheLimitInForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fl, nodes := bubbledNodes(t, 3)
		fl.punctual = true
		before := shardlimit.Limit{Permits: 10, Per: time.Minute, Burst: 25, Shards: 1, Failover: true,
			Algorithm: shardlimit.LeakyBucket}
		rests, other := limiter(t, fl.client(t), "l", before), limiter(t, fl.client(t), "l", before)
		settled(t, other)
		if _, err := rests.Allow(t.Context()); err != nil {
			t.Fatal(err)
		}
		after := before
		after.Burst = 2
		if err := other.SetLimit(t.Context(), after); err != nil {
			t.Fatal(err)
		}
		settled(t, other)
		time.Sleep(31 * time.Minute) // no shard has state that would tell of the change
		begun := time.Now()
		var record history.Recorder
		tally := record.Tally()
		used := func() { tally.Add(int64(time.Since(begun)), int64(time.Since(begun)), 1) }
		ctx, cancel := context.WithTimeout(t.Context(), 149*time.Second)
		defer cancel()
		var turns sync.WaitGroup
		for range 25 {
			turns.Go(func() {
				if _, err := rests.Acquire(ctx, 1); err == nil {
					used()
				}
			})
		}
		time.Sleep(time.Second)
		for i, n := range fl.nodes {
			nodes[i].down.Store(n.Name == peek(t, other).Shards[0].Node)
		}
		for time.Since(begun) < 5*time.Minute {
			if d, err := other.Allow(t.Context()); err == nil && d.Allowed {
				turns.Go(func() {
					time.Sleep(d.Delay)
					used()
				})
			}
			time.Sleep(500 * time.Millisecond)
		}
		turns.Wait()
		// turns are evenly spaced, so a window holds one more than the permits
		if worst, ok := history.Check(after.Per, after.Permits+1, record.Ops()); !ok {
			t.Error(worst)
		}
	})
}

// A process that knows an earlier layout declares it when all records were lost. The shards that it
// lists obey a later one by then, and give nothing.
func TestAForgottenLayoutIsNotOvertakenByADeclaration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fl, nodes := bubbledNodes(t, 4)
		fl.punctual = true
		limit := shardlimit.Limit{Permits: 40, Per: time.Minute, Shards: 4, Failover: true}
		rests := limiter(t, fl.client(t), "l", limit)
		changes := fl.client(t)
		l := limiter(t, changes, "l", limit)
		settled(t, rests)
		drain(t, rests) // every shard has state
		time.Sleep(time.Minute)
		limit.Shards = 1
		if err := l.SetLimit(t.Context(), limit); err != nil {
			t.Fatal(err)
		}
		settled(t, l)
		if d, err := l.AllowUpTo(t.Context(), limit.Permits); err != nil || d.Granted != limit.Permits {
			t.Fatalf("%+v, %v", d, err)
		}
		changes.Close()
		for _, n := range nodes {
			n.redis.Drop(ofARecord)
		}
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			if d, err := rests.AllowUpTo(t.Context(), limit.Permits); err == nil && d.Granted > 0 {
				t.Fatalf("%d permits beside all of them", d.Granted)
			}
		}
	})
}
