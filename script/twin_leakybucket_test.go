package script

import "github.com/shardlimit/shardlimit/internal/columns"

// leakyBucket is the Go twin of leakybucket.lua, which explains it.
type leakyBucket struct {
	bucket
	last, lastPart int64 // the last turn given
}

func (l *leakyBucket) clone() rule {
	own := *l
	return &own
}

func (l *leakyBucket) text() string {
	return string(columns.LeakyBucket.Append(nil, 0, l.last, l.lastPart))
}

func (l *leakyBucket) advance(f *frame) {
	l.date, l.part = l.last, l.lastPart
	if f.share > 0 {
		l.move(f, 1)
	}
	l.measure(f)
}

func (l *leakyBucket) grant(f *frame, n int64) {
	l.move(f, n-1)
	l.last, l.lastPart = l.date, l.part
	l.move(f, 1)
}

func (l *leakyBucket) begin(f *frame) {
	*l = leakyBucket{}
	l.advance(f)
}

// whole returns the last turn, rounded up, as the part counts in another share.
func (l *leakyBucket) whole() int64 {
	if l.lastPart > 0 {
		return l.last + 1
	}
	return l.last
}

func (l *leakyBucket) regrid(f *frame, was int64) {
	if f.window > was {
		l.last++
	}
}

func (l *leakyBucket) reshape(f *frame) {
	l.last, l.lastPart = l.whole(), 0
	l.advance(f)
}

func (l *leakyBucket) ends(f *frame) int64 { return l.whole() + f.window - f.now }

func (l *leakyBucket) held(f *frame) int64 {
	if l.full() > f.now {
		return f.share
	}
	return 0
}

func (l *leakyBucket) pace(f *frame) (int64, int64) { return l.date - f.now, l.part }

func (l *leakyBucket) reset(f *frame) int64        { return l.retry(f, l.room) }
func (l *leakyBucket) soonest(f *frame) int64      { return l.soonestBy(f, l.retry) }
func (l *leakyBucket) releases(f *frame) []Release { return l.releasesBy(f, l.retry) }

func (l *leakyBucket) retry(f *frame, n int64) int64 {
	switch {
	case n > l.room || n > f.burst:
		return -1
	case f.share > f.target:
		return l.full() - f.now
	}
	return l.wait(f, n)
}

func (l *leakyBucket) booked() bool { return false }

// turn returns when an ask of n permits acts, us: with its last permit.
func (l *leakyBucket) turn(f *frame, n int64) int64 {
	us, rest := mulDiv(f.window, n-1, l.part, f.share)
	if rest > 0 {
		us++
	}
	return l.date + us - f.now
}

func (l *leakyBucket) earliest(f *frame, n, after, _ int64) (us int64, room bool) {
	if f.share > f.target || n > l.room || n > f.burst {
		return l.retry(f, n), false
	}
	return max(l.turn(f, n), after), n <= l.level
}

// book: where the turns are to come later than they would, nobody has those before.
func (l *leakyBucket) book(f *frame, n, us int64) (at int64) {
	l.date += us - l.turn(f, n)
	l.grant(f, n)
	l.measure(f)
	return f.now + us
}

func (l *leakyBucket) refund(f *frame, n, at int64) int64 {
	if f.share == 0 || f.quarantine() > 0 || at <= f.now || l.whole() != at {
		return 0
	}
	had := l.level
	l.date, l.part = l.last, l.lastPart
	l.back(f, min(n, l.room-had))
	l.last, l.lastPart = l.date, l.part
	l.advance(f)
	return min(l.level-had, n)
}
