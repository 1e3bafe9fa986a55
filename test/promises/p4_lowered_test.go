package promises

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/race"
)

// TestALoweredLimitIsUsed: in the second after a limit was lowered, nearly all that the new limit
// admits is used.
func TestALoweredLimitIsUsed(t *testing.T) {
	t.Parallel()
	const shards = 4
	for _, processes := range []int{1, 4} {
		if race.Enabled && processes == 1 {
			continue // what runs side by side is the same with more
		}
		t.Run(fmt.Sprint(processes, " processes"), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				limiters := limittest.Bubbled(t, shards).Group(t, processes, "l",
					shardlimit.Limit{Permits: 2000, Per: time.Second, Shards: shards})
				var demands []*limittest.Demand
				for _, l := range limiters {
					demands = append(demands, limittest.NewDemand(t, time.Duration(processes)*300*time.Microsecond, l))
				}
				time.Sleep(2 * time.Second) // of the bubble's time
				if err := limiters[0].SetLimit(t.Context(),
					shardlimit.Limit{Permits: 1200, Per: time.Second, Shards: shards}); err != nil {
					t.Fatal(err)
				}
				lowered := make([]int64, len(demands))
				for i, d := range demands {
					lowered[i] = d.Now()
				}
				time.Sleep(1100 * time.Millisecond)
				used := int64(0)
				for i, d := range demands {
					for _, op := range d.Stop() {
						if since := op.Start - lowered[i]; since >= 0 && since < int64(time.Second) {
							used += op.Permits
						}
					}
				}
				if used < 1050 || processes == 1 && used < 1190 {
					t.Errorf("%d of 1200 were used in the second after", used)
				}
			})
		})
	}
}
