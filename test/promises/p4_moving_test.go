package promises

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/race"
)

// TestNearlyAllIsUsedWhileSharesMove: four processes want more than there is, while the limit goes
// from 4 shards to 16, to 3 and to 8. What leaves the window on one shard is used on another.
func TestNearlyAllIsUsedWhileSharesMove(t *testing.T) {
	if race.Enabled {
		return // an emulated Redis takes long under it
	}
	synctest.Test(t, func(t *testing.T) {
		limit := shardlimit.Limit{Permits: 600, Per: time.Second, Shards: 4}
		limiters := limittest.Bubbled(t, 4).Group(t, 4, "l", limit)
		var demands []*limittest.Demand
		for _, l := range limiters {
			demands = append(demands, limittest.NewDemand(t, 4000*time.Microsecond, l))
		}
		time.Sleep(2 * time.Second) // of the bubble's time
		from := demands[0].Now()
		const each = 2 * time.Second
		for i, shards := range []int{16, 3, 8} {
			limit.Shards = shards
			if err := limiters[i].SetLimit(t.Context(), limit); err != nil {
				t.Fatal(err)
			}
			time.Sleep(each)
		}
		to, used := demands[0].Now(), int64(0)
		for _, d := range demands {
			for _, op := range d.Stop() {
				if op.Start >= from && op.Start < to {
					used += op.Permits
				}
			}
		}
		free := float64(limit.Permits) * float64(to-from) / float64(limit.Per)
		t.Logf("%.3f of the limit was used", float64(used)/free)
		if float64(used) < 0.95*free {
			t.Errorf("%d of %.0f permits were used while shares moved", used, free)
		}
	})
}
