package forecast

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shardlimit/shardlimit/script"
)

// n permits come when so many are free together after all that comes back then. What is booked may
// leave more free now than behind it.
func TestOutlookFollowsWhatComesBack(t *testing.T) {
	look := func(free int64, closed int64, steps ...int64) script.PeekReply {
		p := script.PeekReply{Free: free, Closed: time.Duration(closed) * time.Second}
		for i, permits := range steps {
			p.Used += permits
			p.Releases = append(p.Releases, script.Release{In: time.Duration(i+1) * time.Second, Permits: permits})
		}
		return p
	}
	// 4 are used in the window under way, and 8 are booked in the next one.
	booked := script.PeekReply{Free: 6, Used: 12, Window: time.Second, Releases: []script.Release{
		{In: time.Second, Permits: 4}, {In: 2 * time.Second, Permits: 8}}}
	for name, c := range map[string]struct {
		shards []script.PeekReply
		want   map[int64]int64 // in seconds
	}{
		"one shard":      {[]script.PeekReply{look(4, 0, 1, 5)}, map[int64]int64{4: 0, 5: 1, 6: 2, 10: 2}},
		"over its share": {[]script.PeekReply{look(0, 0, 3, 3, 9)}, map[int64]int64{1: 2, 2: 3, 10: 3}},
		"beside a booking": {[]script.PeekReply{look(4, 0, 2, 3, 7)},
			map[int64]int64{4: 0, 5: 3, 10: 3}},
		"a window that is booked": {[]script.PeekReply{booked, look(0, 0, 1, 9)}, map[int64]int64{6: 0, 7: 2, 20: 2}},
		"a window that is booked, after another shard": {[]script.PeekReply{look(0, 0, 1, 9), booked},
			map[int64]int64{6: 0, 7: 2, 20: 2}},
		"a window that is booked, and nothing is used": {[]script.PeekReply{{Free: 10, Used: 8, Window: time.Second,
			Releases: []script.Release{{In: 3 * time.Second, Permits: 8}}}, look(0, 0, 0, 1, 9)},
			map[int64]int64{10: 0, 11: 3, 20: 3}},
		"two shards":    {[]script.PeekReply{look(0, 0, 10), look(0, 0, 10)}, map[int64]int64{1: 1, 20: 1}},
		"in quarantine": {[]script.PeekReply{look(0, 2, 2, 3, 4)}, map[int64]int64{1: 2, 6: 2, 7: 3, 10: 3}},
	} {
		const made = 7
		var o Outlook
		for _, p := range c.shards {
			o.Free += p.Free
			o.Releases = append(o.Releases, Releases(p.Free, &p, made, 10)...)
		}
		o.Sort()
		for n, want := range c.want {
			at, ok := o.When(n)
			if got := max(at-made, 0); !ok || got != want*int64(time.Second) {
				t.Errorf("%s: %d permits in %s, %v, want %d s", name, n, time.Duration(got), ok, want)
			}
		}
	}
}

// A split is for the earliest instant, asks no shard for more than it has then, or for less than
// its part by weight if it has that, and comes to n.
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
		parts, when := Split(offers, n)
		if parts == nil {
			if n <= most {
				t.Fatalf("%d of %d permits were not split", n, most)
			}
			return
		}
		got, at, weights := int64(0), int64(0), int64(0)
		for i := range offers {
			weights += offers[i].Weight
		}
		for sum(at) < n {
			at++
		}
		if when != at {
			t.Errorf("%d permits are for %d, which are there by %d", n, when, at)
		}
		for i, part := range parts {
			most := offers[i].by(at)
			if got += part; part > most || part < min(most, n*offers[i].Weight/weights) {
				t.Errorf("shard %d, which has %d of weight %d of %d, is asked for %d", i, most, offers[i].Weight,
					weights, part)
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
