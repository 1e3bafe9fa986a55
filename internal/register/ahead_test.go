package register

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shardlimit/shardlimit/shard"
)

func TestHowFarAheadAndHowLongItMatters(t *testing.T) {
	for name, c := range map[string]struct {
		spec           shard.Spec
		fenced, family bool
		ahead, lasts   time.Duration
	}{
		"a log":  {spec: shard.Spec{Permits: 5, Window: time.Minute}, lasts: 3 * time.Minute},
		"leased": {spec: shard.Spec{Permits: 5, Window: time.Minute, Lease: time.Second}, lasts: 181 * time.Second},
		"windows": {spec: shard.Spec{Permits: 5, Window: time.Minute, Algorithm: FixedWindow},
			lasts: 9 * time.Minute},
		"a bucket": {spec: shard.Spec{Permits: 5, Window: time.Minute, Algorithm: TokenBucket}, ahead: time.Hour,
			lasts: 61 * time.Minute},
		"a key": {spec: shard.Spec{Permits: 5, Window: time.Second, Algorithm: LeakyBucket}, family: true,
			ahead: time.Minute, lasts: 61 * time.Second},
		"short": {spec: shard.Spec{Permits: 5, Window: time.Millisecond, Algorithm: LeakyBucket}, family: true,
			ahead: 64 * time.Millisecond, lasts: 65 * time.Millisecond},
		"fenced": {spec: shard.Spec{Permits: 5, Window: time.Minute, Algorithm: TokenBucket}, fenced: true,
			ahead: 2 * time.Minute, lasts: 3 * time.Minute},
		"a burst": {spec: shard.Spec{Permits: 5, Burst: 50, Window: time.Minute, Algorithm: TokenBucket},
			fenced: true, ahead: 20 * time.Minute, lasts: 30 * time.Minute},
		"a trickle": {spec: shard.Spec{Permits: 50, Burst: 5, Window: time.Minute, Algorithm: TokenBucket},
			fenced: true, ahead: 12 * time.Second, lasts: 3 * time.Minute},
	} {
		ahead := Ahead(c.spec, c.fenced, c.family)
		if lasts := lastsUnder(c.spec, booking(c.fenced), c.family); ahead != c.ahead || lasts != c.lasts {
			t.Errorf("%s: %s ahead, matters for %s; want %s and %s", name, ahead, lasts, c.ahead, c.lasts)
		}
	}
}

// booking is a fence under which permits may be reserved ahead, or none.
func booking(fenced bool) *shard.Fence {
	if !fenced {
		return nil
	}
	return &shard.Fence{Ahead: true}
}

// Where nobody reserves ahead, only what is in the window matters, or in the queue or bucket.
func TestHowLongMattersWhatWasNotReserved(t *testing.T) {
	for name, c := range map[string]struct {
		spec shard.Spec
		want time.Duration
	}{
		"a log":      {shard.Spec{Permits: 5, Window: time.Minute}, time.Minute},
		"leased":     {shard.Spec{Permits: 5, Window: time.Minute, Lease: time.Second}, 61 * time.Second},
		"a counter":  {shard.Spec{Permits: 5, Window: time.Minute, Algorithm: SlidingCounter}, time.Minute},
		"windows":    {shard.Spec{Permits: 5, Window: time.Minute, Algorithm: FixedWindow}, 2 * time.Minute},
		"a bucket":   {shard.Spec{Permits: 5, Window: time.Minute, Algorithm: TokenBucket}, time.Minute},
		"a trickle":  {shard.Spec{Permits: 50, Burst: 5, Window: time.Minute, Algorithm: TokenBucket}, time.Minute},
		"a burst":    {shard.Spec{Permits: 5, Burst: 50, Window: time.Minute, Algorithm: TokenBucket}, 11 * time.Minute},
		"a queue":    {shard.Spec{Permits: 5, Window: time.Minute, Algorithm: LeakyBucket}, 2 * time.Minute},
		"a long one": {shard.Spec{Permits: 5, Burst: 50, Window: time.Minute, Algorithm: LeakyBucket}, 11 * time.Minute},
	} {
		if got := lastsUnder(c.spec, &shard.Fence{}, false); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// The record of a family remembers where keys were for as long as permits may be reserved there:
// under a fence that is not as far ahead as without.
func TestWhatIsUnderAFenceIsForgottenSooner(t *testing.T) {
	bucket := shard.Layout{Permits: 5, Window: time.Second, Algorithm: TokenBucket}
	under := func(life string) shard.Arrangement {
		return shard.Arrangement{Shards: 1, Nodes: []shard.Node{{Name: "a", Weight: 1, Life: life}}}
	}
	for name, c := range map[string]struct {
		now, before string // lives
		want        time.Duration
	}{
		"no fence":           {want: 70 * time.Second},
		"a fence":            {now: "m-2", before: "m-1", want: 12 * time.Second},
		"a fence, just then": {now: "m-1", want: 70 * time.Second},
		"none any more":      {before: "m-1", want: 70 * time.Second},
	} {
		layout := bucket
		layout.Keys = &shard.Keys{Arrangement: under(c.now),
			Before: []shard.Past{{Arrangement: under(c.before), Spec: bucket.Spec()}}}
		if got := LeftAfter(&layout); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// Whatever is booked is used, and a bucket full again, before nothing counts any more.
func TestWhatIsBookedCountsUntilItMattersNoMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := shard.Spec{
			Permits: rapid.Int64Range(1, 1000).Draw(t, "permits"), Burst: rapid.Int64Range(0, 9000).Draw(t, "burst"),
			Window:    time.Duration(rapid.Int64Range(1, 3_600_000).Draw(t, "ms")) * time.Millisecond,
			Algorithm: rapid.SampledFrom([]string{TokenBucket, LeakyBucket}).Draw(t, "algorithm"),
		}
		fenced, family := rapid.Bool().Draw(t, "fenced"), rapid.Bool().Draw(t, "family")
		ahead := Ahead(spec, fenced, family)
		burst := max(spec.Burst, 1)
		fills := time.Duration(float64(burst) / float64(spec.Permits) * float64(spec.Window))
		if lasts := lastsUnder(spec, booking(fenced), family); ahead < 2*fills || lasts < ahead+fills || lasts < 3*spec.Window {
			t.Fatalf("%s ahead, full after %s, matters for %s", ahead, fills, lasts)
		}
	})
}
