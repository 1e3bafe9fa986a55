package script

import "math"

// bucket is the Go twin of bucket.lua, which explains it: what token and leaky bucket share.
type bucket struct {
	date, part  int64 // the bucket is full at date + part/share
	room, level int64 // found by measure
	reserved    int64 // permits that are booked ahead
	spare       int64 // what these leave of what will be there; 0: a queue has none
}

// full returns when the bucket is full, rounded up.
func (b *bucket) full() int64 {
	if b.part > 0 {
		return b.date + 1
	}
	return b.date
}

// missing returns what is missing in the bucket at an instant: below zero what it gains from when
// it is full until then, as if it had room.
func (b *bucket) missing(f *frame, at int64) int64 {
	switch away := float64(f.share) * math.Abs(float64(b.date-at)) / float64(f.window); {
	case f.share == 0:
		return 0
	case away >= far && b.date > at:
		return far
	case away >= far:
		return -far
	case b.date >= at:
		whole, more := mulDiv(f.share, b.date-at, b.part, f.window)
		return whole + min(more, 1)
	}
	gained, _ := mulDiv(f.share, at-b.date-1, f.share-b.part, f.window)
	return -gained
}

// measure finds what is in the bucket.
func (b *bucket) measure(f *frame) {
	b.room = f.burst
	if f.share == 0 {
		b.room = 0
	} else if f.share < f.target {
		b.room, _ = mulDiv(f.burst, f.share, 0, f.target)
	}
	if b.full() <= f.now {
		b.date, b.part = f.now, 0
	}
	b.level = b.room - b.missing(f, f.now)
}

// span returns how long n permits take, and more parts of a microsecond.
func (b *bucket) span(f *frame, n, more int64) (us, part int64) {
	if float64(f.window)*float64(n)/float64(f.share) < far {
		return mulDiv(f.window, n, more, f.share)
	}
	return far, 0
}

// move takes n permits out.
func (b *bucket) move(f *frame, n int64) {
	us, part := b.span(f, n, b.part)
	b.date, b.part, b.level = b.date+us, part, b.level-n
}

// overdraw returns as many of n permits as the bucket gains until it is full, if that is in us at
// the latest.
func (b *bucket) overdraw(f *frame, n, us int64) int64 {
	return max(min(n, -b.missing(f, f.now+us)-b.reserved), 0)
}

// back is the exact opposite of move, but for the level.
func (b *bucket) back(f *frame, n int64) {
	us, less := mulDiv(f.window, n, 0, f.share)
	b.date, b.part = b.date-us, b.part-less
	if b.part < 0 {
		b.date, b.part = b.date-1, b.part+f.share
	}
}

func (b *bucket) regrid(*frame, int64) {}

// used is, of a shard that leaves to another algorithm, all that it keeps back.
func (b *bucket) used(f *frame) int64 {
	if f.quarantine() > 0 {
		return f.share
	}
	return b.room - b.level
}

func (b *bucket) free(f *frame) int64 {
	if f.share > f.target {
		return 0
	}
	return max(b.level, 0)
}

// wait returns the microseconds until n permits are in the bucket.
func (b *bucket) wait(f *frame, n int64) int64 {
	if n <= b.level {
		return 0
	}
	us, less := mulDiv(f.window, b.room-n, 0, f.share)
	if less < b.part {
		us--
	}
	return b.date - us - f.now
}

// soonestBy is soonest, given the algorithm's retry.
func (b *bucket) soonestBy(f *frame, retry func(*frame, int64) int64) int64 {
	if b.level >= b.room {
		return 0
	}
	if us := retry(f, max(b.level, 0)+1); us >= 0 {
		return us
	}
	return retry(f, b.room)
}

// releasesBy is releases, given the algorithm's retry.
func (b *bucket) releasesBy(f *frame, retry func(*frame, int64) int64) (releases []Release) {
	step := (b.room - b.level + MaxReleases - 2) / (MaxReleases - 1)
	for from := b.level; from < b.room; {
		to := min(from+step, b.room)
		if from < b.spare && b.spare < to {
			to = b.spare
		}
		releases = append(releases, Release{In: duration(retry(f, to)), Permits: to - from})
		from = to
	}
	return releases
}
