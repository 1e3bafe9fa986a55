package forecast

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shardlimit/shardlimit/script"
)

// What is free can fall again, on one shard while it rises on another: n permits come when so many
// are free together after all that happens then.
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
		"one shard": {[][]script.Load{loads(6, 10, 5, 8, 0)}, 0,
			map[int64]time.Duration{4: 0, 5: 2, 6: 4, 10: 4}},
		"over its share": {[][]script.Load{loads(15, 12, 9)}, 0, map[int64]time.Duration{1: 2, 2: 9}},
		"at the same instant": {[][]script.Load{loads(10, 0, 0), loads(0, 10, 0)}, 0,
			map[int64]time.Duration{10: 0, 11: 2, 20: 2}},
		"in quarantine": {[][]script.Load{loads(0, 9, 7, 4)}, 2500 * time.Millisecond,
			map[int64]time.Duration{1: 25, 3: 25, 4: 3, 6: 3, 7: 9}},
	} {
		const made = 7
		var o Outlook
		for _, shard := range c.shards {
			free := int64(0)
			if c.closed == 0 {
				free = max(0, 10-shard[0].Permits)
			}
			o.Add(free, Releases(shard, c.closed, made, 10))
		}
		o.Sort()
		for n, want := range c.want {
			if want *= time.Second; want == 25*time.Second {
				want = c.closed
			}
			at, ok := o.When(n)
			if !ok {
				at = made + int64(9*time.Second)
			}
			if got := time.Duration(max(at-made, 0)); got != want {
				t.Errorf("%s: %d permits in %s, want %s", name, n, got, want)
			}
		}
	}
}

// A split is for the earliest instant, asks no shard for more than it has then, and comes to n.
func TestASplitIsForTheEarliestInstant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		offers, most := someOffers(t)
		sum := func(at int64) (sum int64) {
			for i := range offers {
				sum += offers[i].by(at)
			}
			return sum
		}
		n := rapid.Int64Range(1, 40).Draw(t, "n")
		parts := Split(offers, n)
		if parts == nil {
			if n <= most {
				t.Fatalf("%d of %d permits were not split", n, most)
			}
			return
		}
		got, at := int64(0), int64(0)
		for sum(at) < n {
			at++
		}
		for i, part := range parts {
			if got += part; part > offers[i].by(at) {
				t.Errorf("shard %d is asked for %d of %d", i, part, offers[i].by(at))
			}
		}
		if got != n {
			t.Errorf("%d permits, want %d", got, n)
		}
	})
}

// someOffers draws what shards have, and how many permits come in all.
func someOffers(t *rapid.T) (offers []Offer, permits int64) {
	offers = make([]Offer, rapid.IntRange(1, 4).Draw(t, "shards"))
	for i := range offers {
		o := &offers[i]
		o.Free, o.Weight = rapid.Int64Range(0, 5).Draw(t, "free"), rapid.Int64Range(1, 9).Draw(t, "weight")
		o.After = rapid.Int64Range(0, 6).Draw(t, "after")
		permits += o.Free
		for at := int64(1); at < 8; at += rapid.Int64Range(1, 4).Draw(t, "gap") {
			o.Releases = append(o.Releases, Release{at, rapid.Int64Range(0, 4).Draw(t, "permits")})
			permits += o.Releases[len(o.Releases)-1].Permits
		}
	}
	return offers, permits
}
