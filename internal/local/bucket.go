package local

import (
	"math"

	"github.com/shardlimit/shardlimit/script"
)

// bucket gains permits evenly up to the burst. The permits in a leaky bucket are the room in its
// queue: one that is granted acts once all before it have been gained.
type bucket struct {
	limit Limit
	// It is full at full + part/Permits, if nothing more is granted: no rounding adds up.
	full, part int64
	granted    int64 // when anything last was
}

// change keeps what is in a token bucket: a raised burst comes empty. The turns that a leaky bucket
// gave stay, and the next comes as long after them as the new limit says.
func (b *bucket) change(now int64, limit Limit) {
	old := b.limit
	if b.limit = limit; old.Permits == 0 { // it begins
		return
	}
	interval := func(l *Limit) float64 { return float64(l.Window) / float64(l.Permits) }
	full := b.full + min(b.part, 1)
	b.part = 0
	if limit.Algorithm == script.AlgorithmLeakyBucket {
		b.full = full + int64(math.Ceil(interval(&limit)-interval(&old)))
		return
	}
	missing := float64(max(full-now, 0))/interval(&old) + float64(limit.most()-old.most())
	b.full = now + int64(math.Ceil(min(max(missing, 0)*interval(&limit), far)))
}

// missing is how many permits are, and whether a part of one is beside them.
func (b *bucket) missing(now int64) (whole int64, more bool) {
	if b.full < now {
		return 0, false
	}
	whole, rest := mulDiv(b.full-now, b.limit.Permits, b.part, int64(b.limit.Window))
	return whole, rest > 0
}

func (b *bucket) used(now int64) (n, until int64) {
	n, more := b.missing(now)
	if more {
		n++
	}
	return n, max(b.full+min(b.part, 1), now) // it is full then, rounded up
}

func (b *bucket) earliest(now, n int64) int64 {
	ns, rest := mulDiv(b.limit.most()-n, int64(b.limit.Window), 0, b.limit.Permits) // may be missing then
	if rest < b.part {
		ns--
	}
	return max(b.full-ns, now)
}

// after is when n more permits would have been gained.
func (b *bucket) after(now, n int64) (full, part int64) {
	if b.full < now {
		b.full, b.part = now, 0
	}
	ns, part := mulDiv(n, int64(b.limit.Window), b.part, b.limit.Permits)
	return b.full + ns, part
}

func (b *bucket) turn(now, k int64) int64 {
	if b.limit.Algorithm != script.AlgorithmLeakyBucket {
		return now
	}
	full, part := b.after(now, k)
	return full + min(part, 1)
}

func (b *bucket) grant(now, n int64) (at int64) {
	b.full, b.part = b.after(now, n)
	if b.granted = now; b.limit.Algorithm == script.AlgorithmLeakyBucket {
		return b.last()
	}
	return now
}

// last is the last turn of a leaky bucket, in microseconds: so back knows the permits.
func (b *bucket) last() int64 {
	return (b.full - int64(b.limit.Window)/b.limit.Permits) / 1000
}

// back: a leaky bucket gives up its last turns only, to a microsecond, before the last of them
// comes. Into a token bucket nothing comes back that it has gained since, as that may have flowed
// over.
func (b *bucket) back(now, at, n int64) int64 {
	had, _ := b.used(now)
	leaky := b.limit.Algorithm == script.AlgorithmLeakyBucket
	if last := b.last(); leaky && (at < last-1 || at > last+1) {
		return 0
	} else if whole, _ := b.missing(now); leaky {
		n = min(n, whole)
	}
	most := max(b.full-now, 0)
	ns, part := mulDiv(n, int64(b.limit.Window), 0, b.limit.Permits)
	if !leaky {
		most = min(most, max(ns-(now-at), 0))
	}
	if ns > most || ns == most && part > b.part {
		ns, part = most, 0
	}
	if b.full, b.part = b.full-ns, b.part-part; b.part < 0 {
		b.full, b.part = b.full-1, b.part+b.limit.Permits
	}
	left, _ := b.used(now)
	return had - left
}
