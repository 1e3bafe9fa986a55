package shardlimit

import (
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/script"
)

// What is free can fall again, on one shard while it rises on another: n permits come when so many are free together after all that happens then.
func TestOutlookFollowsWhatIsFreeUpAndDown(t *testing.T) {
	loads := func(steps ...int64) (loads []script.Load) {
		for i, permits := range steps {
			loads = append(loads, script.Load{In: time.Duration(i) * time.Second, Permits: permits})
		}
		return loads
	}
	for name, c := range map[string]struct {
		shards [][]script.Load
		closed time.Duration
		want   map[int64]time.Duration
	}{
		"one shard":           {[][]script.Load{loads(6, 10, 5, 8, 0)}, 0, map[int64]time.Duration{4: 0, 5: 2, 6: 4, 10: 4}},
		"over its share":      {[][]script.Load{loads(15, 12, 9)}, 0, map[int64]time.Duration{1: 2, 2: 9}},
		"at the same instant": {[][]script.Load{loads(10, 0, 0), loads(0, 10, 0)}, 0, map[int64]time.Duration{10: 0, 11: 2, 20: 2}},
		"in quarantine":       {[][]script.Load{loads(0, 9, 7, 4)}, 2500 * time.Millisecond, map[int64]time.Duration{1: 25, 3: 25, 4: 3, 6: 3, 7: 9}},
	} {
		o := outlook{made: 7}
		for _, shard := range c.shards {
			if c.closed == 0 {
				o.free += max(0, 10-shard[0].Permits)
			}
			o.releases = append(o.releases, releasesOf(shard, c.closed, o.made, 10)...)
		}
		byTime(o.releases)
		for n, want := range c.want {
			if want *= time.Second; want == 25*time.Second {
				want = c.closed
			}
			got := time.Duration(max(o.when(n, 9*time.Second)-o.made, 0))
			if got != want {
				t.Errorf("%s: %d permits in %s, want %s", name, n, got, want)
			}
		}
	}
}
