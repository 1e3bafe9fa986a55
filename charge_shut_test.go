package shardlimit_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
)

// A shard that lost its memory and is shut counts nothing. A charge says so, and the others count
// their part.
func TestAChargeTellsOfAShardInQuarantine(t *testing.T) {
	for _, a := range algorithms {
		t.Run(a.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, nodes := bubbledNodes(t, 2)
				f.punctual = true
				l := limiter(t, f.client(t, afterLoss(shardlimit.Quarantine)), "l",
					shardlimit.Limit{Permits: 20, Per: time.Minute, Algorithm: a, Shards: 2})
				settled(t, l)
				mustGet(t, l, 20)
				time.Sleep(2 * time.Minute)
				mustGet(t, l, 20)
				nodes[0].redis.Restart()
				d, err := l.Charge(t.Context(), 10)
				var shut *shardlimit.ShardError
				if !errors.As(err, &shut) || shut.Node != "n0" || errors.Is(err, shardlimit.ErrOwesTooMuch) ||
					d.Granted != 5 {
					t.Errorf("%+v, %v", d, err)
				}
			})
		})
	}
}

// A shard whose share is still on its way to it counts nothing: those that have it do.
func TestChargesWhileAShareIsOnItsWay(t *testing.T) {
	for _, a := range []shardlimit.Algorithm{shardlimit.SlidingLog, shardlimit.SlidingCounter,
		shardlimit.LeakyBucket} {
		for _, n := range []int64{1, 8} {
			t.Run(fmt.Sprint(a, n), func(t *testing.T) {
				inBubble(t, 1, func(t *testing.T, f fleet) {
					limit := shardlimit.Limit{Permits: 40, Per: time.Minute, Algorithm: a, Shards: 1}
					l := limiter(t, f.client(t), "l", limit)
					mustGet(t, l, 40)
					limit.Shards = 4
					if err := l.SetLimit(t.Context(), limit); err != nil {
						t.Fatal(err)
					}
					d, err := l.Charge(t.Context(), n)
					if err != nil || d.Granted != n {
						t.Errorf("%+v, %v", d, err)
					}
					if st := peek(t, l); st.Settled || st.Used != 40+n {
						t.Errorf("%d used, settled: %v", st.Used, st.Settled)
					}
				})
			})
		}
	}
}
