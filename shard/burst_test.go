package shard_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/shardlimit/shardlimit/shard"
)

// tub is what a shard with a burst knows in a transition, as far as the burst goes.
type tub struct {
	epoch, target, start, share, burst int64
}

// inForce is the burst that the shard allows: all of it at its target, its share's part below.
func (b tub) inForce() int64 {
	if b.share < b.target {
		return b.burst * b.share / b.target
	}
	return b.burst
}

// tubs is a limit with a burst on its way from one settled layout to the next.
type tubs struct {
	next shard.Layout
	all  []tub // in the order of next.Shards
	obs  []shard.Observation
}

func startTubs(old, next shard.Layout) *tubs {
	w := &tubs{next: next, all: make([]tub, len(next.Shards)), obs: make([]shard.Observation, len(next.Shards))}
	for j, s := range next.Shards {
		if i := old.Index(s.Site()); i >= 0 {
			was := old.Shards[i]
			w.all[j] = tub{epoch: old.Epoch, target: was.Share, share: was.Share, burst: was.Burst}
		}
	}
	return w
}

// hear tells a shard of the next layout.
func (w *tubs) hear(j int) {
	if b, s := &w.all[j], w.next.Shards[j]; b.epoch < w.next.Epoch {
		*b = tub{epoch: w.next.Epoch, target: s.Share, start: b.share, share: b.share, burst: s.Burst}
	}
}

// sink lowers a share above its target, as what was used comes back, to within so much of it.
func (w *tubs) sink(j int, above int64) {
	if b := &w.all[j]; b.epoch == w.next.Epoch && b.share > b.target {
		b.share = min(b.share, b.target+above)
	}
}

func (w *tubs) look(j int) {
	b := w.all[j]
	w.obs[j] = shard.Observation{Seen: b.epoch > 0, Epoch: b.epoch, Start: b.start, Share: b.share}
}

// raise does with one shard what the plan says, and reports whether the plan is done.
func (w *tubs) raise(j int) (done bool) {
	step := w.next.Plan(w.obs)
	if floor := step.Raise[j]; floor > 0 {
		w.hear(j)
		w.all[j].share = max(w.all[j].share, min(floor, w.all[j].target))
	}
	return step.Done
}

func (w *tubs) inForce() (sum int64) {
	for _, b := range w.all {
		sum += b.inForce()
	}
	return sum
}

// play makes a transition in any order, and returns the greatest sum of the bursts in force on the
// way.
func (w *tubs) play(t *rapid.T) int64 {
	most := w.inForce()
	for range rapid.IntRange(0, 60).Draw(t, "steps") {
		j := rapid.IntRange(0, len(w.all)-1).Draw(t, "shard")
		switch rapid.IntRange(0, 3).Draw(t, "event") {
		case 0:
			w.hear(j)
		case 1:
			w.sink(j, rapid.Int64Range(0, 100).Draw(t, "above"))
		case 2:
			w.look(j)
		case 3:
			w.raise(j)
		}
		most = max(most, w.inForce())
	}
	for done, rounds := false, 0; !done; rounds++ {
		if rounds > 200 {
			t.Fatalf("does not settle: %+v", w)
		}
		for j := range w.all {
			w.hear(j)
			w.sink(j, 0)
			w.look(j)
			done = w.raise(j)
			most = max(most, w.inForce())
		}
	}
	if got := w.inForce(); got != w.next.Burst {
		t.Fatalf("settled with bursts of %d, not %d", got, w.next.Burst)
	}
	return most
}

// drawEqual returns shards with equal shares.
func drawEqual(t *rapid.T) (shards []shard.Shard, permits int64) {
	shards, permits = drawShards(t, 3, 60, 10_000)
	for i, share := range shard.Split(permits, len(shards)) {
		shards[i].Share = share
	}
	return shards, permits
}

// drawBurst draws a burst, small or large beside the permits.
func drawBurst(t *rapid.T, shards int, permits int64) int64 {
	return rapid.OneOf(rapid.Int64Range(int64(shards), int64(shards)+permits),
		rapid.Int64Range(int64(shards), int64(shards)+9*permits)).Draw(t, "burst")
}

// bursting returns the layout that follows an old one: the zero one if there is none.
func bursting(t interface{ Fatal(...any) }, old shard.Layout, permits, burst int64, shards []shard.Shard) shard.Layout {
	s := spec(permits)
	s.Burst = burst
	l, err := shard.New(nil, 1, s, shards)
	if old.Epoch > 0 {
		l, err = old.Change(old.Epoch+1, s, shards, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestBurstInTransition: the bursts in force during a change never sum to more than the old and the
// new one together. They stay within the greater one, but for a permit for each shard, if permits
// and ratio of burst to permits do not go opposite ways, or if each shard keeps its fraction.
func TestBurstInTransition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from, p := drawEqual(t)
		to, q := drawEqual(t)
		same := rapid.IntRange(0, 3).Draw(t, "same fractions") == 0
		if same {
			a, b := rapid.Int64Range(1, 9).Draw(t, "times"), rapid.Int64Range(1, 9).Draw(t, "times then")
			to, p, q = append([]shard.Shard(nil), from...), p*a, p*b
			for i, s := range from {
				from[i].Share, to[i].Share = s.Share*a, s.Share*b
			}
		}
		old := bursting(t, shard.Layout{}, p, drawBurst(t, len(from), p), from)
		next := bursting(t, old, q, drawBurst(t, len(to), q), to)
		w := startTubs(old, next)
		most := w.play(t)
		if most > old.Burst+next.Burst {
			t.Fatalf("bursts of %d, from %d to %d", most, old.Burst, next.Burst)
		}
		rises := next.Burst*p >= old.Burst*q && q >= p
		falls := next.Burst*p <= old.Burst*q && q <= p
		if limit := max(old.Burst, next.Burst) + int64(len(w.all)); (same || rises || falls) && most > limit {
			t.Fatalf("bursts of %d, from %d of %d to %d of %d", most, old.Burst, p, next.Burst, q)
		}
	})
}
