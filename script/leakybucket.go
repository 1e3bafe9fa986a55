package script

// leakyBucket is the Go twin of leakybucket.lua, which explains it.
type leakyBucket struct {
	bucket
	idle int64 // us for which no turn has been due
}

func (l *leakyBucket) advance(f *frame) {
	l.idle = max(f.now-l.full(), 0)
	l.measure(f)
}

func (l *leakyBucket) begin(f *frame) {
	*l = leakyBucket{bucket: bucket{date: f.now}}
	l.measure(f)
}

func (l *leakyBucket) retire(f *frame) { l.retireAt(f, l.full()-l.idle+f.window) }

func (l *leakyBucket) reshape(f *frame) {
	if !f.retired() {
		l.date, l.part = l.full(), 0
		if l.retired { // the next turn was a window before
			l.date = max(l.date-f.window, f.now)
		}
	}
	l.measure(f)
}

func (l *leakyBucket) held(f *frame) int64 {
	if f.retired() {
		return l.ebb(f)
	}
	if l.full() > f.now {
		return f.share
	}
	return 0
}

func (l *leakyBucket) receipt(f *frame) int64       { return f.now }
func (l *leakyBucket) pace(f *frame) (int64, int64) { return l.date - f.now, l.part }

func (l *leakyBucket) soonest(f *frame) int64      { return l.soonestBy(f, l.retry) }
func (l *leakyBucket) releases(f *frame) []Release { return l.releasesBy(f, l.retry) }

func (l *leakyBucket) retry(f *frame, n int64) int64 {
	switch {
	case n > l.room || n > f.burst:
		return -1
	case f.share > f.target:
		return l.reset(f)
	}
	return l.wait(f, n)
}

// turn returns when an ask of n permits acts, us: with its last permit.
func (l *leakyBucket) turn(f *frame, n int64) int64 {
	us, rest := mulDiv(f.window, n-1, l.part, f.share)
	if rest > 0 {
		us++
	}
	return l.date + us - f.now
}

func (l *leakyBucket) earliest(f *frame, n, after int64) (us int64, room bool) {
	if f.share > f.target || n > l.room || n > f.burst {
		return l.retry(f, n), false
	}
	return max(l.turn(f, n), after), true
}

func (l *leakyBucket) overdraw(f *frame, n, us int64) (count, turn int64) {
	if count = l.payable(f, n, us); count > 0 {
		turn = l.turn(f, count)
	}
	return count, turn
}

// book: where the turns are to come later than they would, nobody has those before.
func (l *leakyBucket) book(f *frame, n, us int64) (at int64) {
	l.date += us - l.turn(f, n)
	l.move(f, n)
	l.measure(f)
	return f.now + us
}

func (l *leakyBucket) booked(f *frame) int64 { return l.used(f) }

func (l *leakyBucket) refund(f *frame, n, at int64) int64 {
	if f.share == 0 || l.retired || at <= f.now {
		return 0
	}
	was := *l
	l.back(f, 1)
	if l.full() != at {
		*l = was
		return 0
	}
	n = min(n, l.room-was.level)
	if n > 1 {
		l.back(f, n-1)
	}
	l.measure(f)
	return min(l.level-was.level, n)
}
