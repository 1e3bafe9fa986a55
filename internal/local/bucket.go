package local

import (
	"math"

	"github.com/shardlimit/shardlimit/script"
)

// bucket gains permits evenly up to the burst. That of a leaky bucket is the room in its queue: a
// permit acts once all before it have been gained.
type bucket struct {
	limit Limit
	// It is full at full + part/Permits, if nothing more is granted: no rounding adds up.
	full, part int64
	lows       []low // the newest last
}

// low is how many permits were missing before a grant.
type low struct{ at, missing int64 }

// mostLows bounds how much is remembered.
const mostLows = 64

// change keeps what is in a token bucket: a raised burst comes empty. The turns that a leaky bucket
// gave stay, and the next comes as long after them as the new limit says.
func (b *bucket) change(now int64, limit Limit) {
	old, missing := b.limit, float64(b.until(now)-now)
	interval := func(l *Limit) float64 { return float64(l.Window) / float64(l.Permits) }
	switch b.limit, b.part = limit, 0; {
	case old.Permits == 0:
	case limit.Algorithm != script.AlgorithmLeakyBucket:
		missing = (missing/interval(&old) + float64(limit.most()-old.most())) * interval(&limit)
	case missing > 0:
		missing += interval(&limit) - interval(&old)
	}
	b.full = now + int64(math.Ceil(min(max(missing, 0), far)))
}

// until is when the bucket is full, rounded up.
func (b *bucket) until(now int64) int64 {
	switch {
	case b.full < now:
		return now
	case b.part > 0:
		return b.full + 1
	}
	return b.full
}

// missing is how many permits are, and whether a part of one is beside them.
func (b *bucket) missing(now int64) (whole int64, more bool) {
	if b.full < now || b.limit.Permits == 0 {
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
	return n, b.until(now)
}

func (b *bucket) free(now int64) int64 {
	n, _ := b.used(now)
	return max(b.limit.most()-n, 0)
}

func (b *bucket) earliest(now, n int64) int64 {
	left := b.limit.most() - n // that may be missing then
	if left == 0 {
		return b.until(now)
	}
	ns, rest := mulDiv(left, int64(b.limit.Window), 0, b.limit.Permits)
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
	l := low{at: now}
	l.missing, _ = b.missing(now)
	for len(b.lows) > 0 && b.lows[len(b.lows)-1].missing >= l.missing {
		b.lows = b.lows[:len(b.lows)-1] // the new one says more
	}
	if b.lows = append(b.lows, l); len(b.lows) > mostLows {
		b.lows[1].missing = min(b.lows[0].missing, b.lows[1].missing)
		b.lows = b.lows[1:]
	}
	b.full, b.part = b.after(now, n)
	return b.last(now)
}

// last is how back knows permits that were granted now: of a leaky bucket by their last turn, in
// microseconds.
func (b *bucket) last(now int64) int64 {
	if b.limit.Algorithm != script.AlgorithmLeakyBucket {
		return now
	}
	return (b.full - int64(b.limit.Window)/b.limit.Permits) / 1000
}

// back: a leaky bucket gives up its last turns only, before the last of them comes. A token bucket
// gives back what was missing before every later grant: what would have flowed over meanwhile, had
// the permits not been granted, does not come back.
func (b *bucket) back(now, at, n int64) int64 {
	missing, _ := b.missing(now)
	n = min(n, missing)
	if last := b.last(now); b.limit.Algorithm != script.AlgorithmLeakyBucket {
		for _, l := range b.lows {
			if l.at > at {
				n = min(n, l.missing)
			}
		}
	} else if at < last-1 || at > last+1 {
		return 0
	}
	for i := range b.lows {
		if l := &b.lows[i]; l.at > at {
			l.missing = max(l.missing-n, 0)
		}
	}
	ns, part := mulDiv(n, int64(b.limit.Window), 0, b.limit.Permits)
	if b.full, b.part = b.full-ns, b.part-part; b.part < 0 {
		b.full, b.part = b.full-1, b.part+b.limit.Permits
	}
	return n
}
