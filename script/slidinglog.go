package script

import (
	"cmp"
	"slices"
	"time"

	"github.com/shardlimit/shardlimit/fairness"
)

const (
	wrap       = 1_000_000_000_000_000 // totals run modulo this
	exactShare = 128                   // shares up to this never merge entries
	resolution = 128                   // an open entry takes grants for a window divided by this
	// With fewer closed entries none is prolonged, unless less than a lump is used: a limit that is
	// seldom used needs no log.
	exactLive = 32
	// A share divided by this is a lump. An entry of a lump is not prolonged while something is
	// booked behind it.
	lump = 16
)

// SlidingLog is the state of one shard in this process: the Go twin of the sliding log scripts,
// equal to them result for result. The zero value is absent state. It is of bounded size (at most
// some 180 entries that are not booked ahead, and [fairness.MaxAccounts] accounts) and not safe for
// concurrent use; unlike its Redis counterpart it does not expire by itself. Requests must be such
// as [Endpoint] accepts.
//
// Every method takes now, the time of the shard's node in microseconds. Steps back are made up for;
// a step forward can free at most the share, once.
type SlidingLog struct {
	// Uptime is how long the node has surely kept its memory, in whole seconds; not looked at
	// unless UptimeKnown. Only creation asks.
	Uptime      time.Duration
	UptimeKnown bool

	epoch, target, share, start int64
	window                      int64 // us
	closedUntil                 int64 // shard time
	offset                      int64 // shard time - node time
	touched                     int64 // when more than the open entry was last written
	base                        int64 // total before the oldest entry that was not forgotten when last written
	closed                      []closedEntry
	opened                      int64 // when the open entry opened
	before                      int64 // total before it
	newest                      int64 // its date
	total                       int64
	booked                      int64 // as mark says, when more than the open entry was last written

	fair fair
}

// closedEntry is a number of permits granted from opened to date, and dated at date.
type closedEntry struct {
	date, before, opened int64
}

func byDate(e closedEntry, date int64) int { return cmp.Compare(e.date, date) }

// view is the state at one instant: what trimming finds, before anything is written.
type view struct {
	now, cut int64
	base     int64
	live     int // index of the oldest closed entry that has not left
	used     int64
	stepped  bool // the clock went back
	offset   int64
}

// mod brings a difference or sum of totals back into [0, turn).
func mod(n int64) int64 {
	if n %= wrap; n < 0 {
		n += wrap
	}
	return n
}

// clock turns node time into shard time, which never runs backwards past what was written.
func (l *SlidingLog) clock(now int64) view {
	if l.epoch == 0 {
		return view{now: now}
	}
	v := view{now: now + l.offset, offset: l.offset}
	last := l.touched
	if l.booked == 0 { // a date ahead of the clock was booked there; else it tells that the clock went back
		last = max(last, l.newest)
	}
	if v.now < last {
		v.offset += last - v.now
		v.now = last
		v.stepped = true
	}
	return v
}

// trim forgets, in the view only, what is dated at or before cut.
func (l *SlidingLog) trim(v view, cut int64) view {
	v.cut, v.base = cut, l.base
	switch {
	case l.newest <= cut:
		v.base, v.live = l.total, len(l.closed)
	case len(l.closed) > 0 && l.closed[0].date <= cut:
		v.live, _ = slices.BinarySearchFunc(l.closed, cut+1, byDate)
		v.base = l.before
		if v.live < len(l.closed) {
			v.base = l.closed[v.live].before
		}
	}
	v.used = mod(l.total - v.base)
	return v
}

// look is what every operation but take begins with.
func (l *SlidingLog) look(now int64) view {
	v := l.clock(now)
	return l.trim(v, v.now-l.window)
}

// forget writes the trimmed view down. An open entry that has left is emptied: under a longer
// window it would seem to hold permits again.
func (l *SlidingLog) forget(v view) {
	l.base = v.base
	if l.newest <= v.cut {
		l.before = l.total
	}
	l.closed = slices.Delete(l.closed, 0, v.live)
}

// quarantine returns what is left of it at the view's instant.
func (l *SlidingLog) quarantine(v view) int64 { return max(l.closedUntil-v.now, 0) }

// lowered returns the share in force: above its target it follows the log down, except in
// quarantine.
func (l *SlidingLog) lowered(v view) int64 { return l.loweredTo(l.target, v) }

func (l *SlidingLog) loweredTo(goal int64, v view) int64 {
	if l.falls(goal, v) {
		return max(goal, min(l.share, v.used))
	}
	return l.share
}

// falls reports whether the share is to follow the log down to goal: in quarantine only to what the
// layout before left to the shard.
func (l *SlidingLog) falls(goal int64, v view) bool {
	return l.share > goal && (l.quarantine(v) == 0 || goal < l.target)
}

// term is what the ledger is told at the view's instant.
func (l *SlidingLog) term(v view) fairness.Term { return paced(v.now, l.window, l.share, l.target) }

// free returns what can be granted now.
func (l *SlidingLog) free(v view) int64 {
	if l.quarantine(v) > 0 {
		return 0
	}
	return l.vacant(v)
}

// first returns the date of the oldest entry; there must be one.
func (l *SlidingLog) first(live int) int64 {
	if live < len(l.closed) {
		return l.closed[live].date
	}
	return l.newest
}

// last returns the date of the newest entry that holds anything; there must be one.
func (l *SlidingLog) last() int64 {
	if l.total == l.before && len(l.closed) > 0 {
		return l.closed[len(l.closed)-1].date
	}
	return l.newest
}

// Clear forgets usage, as [Endpoint.Clear] does.
func (l *SlidingLog) Clear(now int64) ClearReply {
	if l.epoch == 0 {
		return ClearReply{}
	}
	v := l.clock(now)
	l.share = min(l.share, l.target)
	l.closedUntil, l.offset, l.touched = 0, v.offset, v.now
	l.base, l.before, l.closed = l.total, l.total, l.closed[:0]
	l.opened, l.newest, l.booked = v.now, v.now, 0
	l.fair.contended = 0
	return ClearReply{Status: OK, Epoch: l.epoch, Share: l.share}
}

// Refund gives permits back, as [Endpoint.Refund] does.
func (l *SlidingLog) Refund(now int64, r RefundRequest) RefundReply {
	if l.epoch == 0 {
		return RefundReply{}
	}
	v := l.look(now)
	refunded, holder := l.holder(v, r)
	after := v
	after.used -= refunded
	share := l.lowered(after)
	if refunded > 0 || share != l.share {
		l.share = share
		l.take(holder, refunded)
		l.forget(v)
		after.live = 0
		if l.newest > v.now && l.total == l.before {
			l.reopen(v.now)
		}
		l.touched, l.booked = v.now, l.mark(after)
	}
	l.fair.restore(l.term(v), &r, refunded)
	l.offset = v.offset
	return RefundReply{Status: OK, Refunded: refunded, Free: l.free(after), Epoch: l.epoch, Share: l.share}
}

// holder finds the entry that holds the grant (len(closed): the open one) and how much of the
// refund it can give.
func (l *SlidingLog) holder(v view, r RefundRequest) (refunded int64, index int) {
	index = len(l.closed)
	if r.At >= l.opened {
		if r.At <= l.newest && l.newest > v.cut {
			refunded = min(mod(l.total-l.before), r.Permits)
		}
		return refunded, index
	}
	for i := v.live; i < len(l.closed); i++ {
		entry := l.closed[i]
		if entry.date < r.At {
			continue
		}
		if entry.opened <= r.At {
			return min(l.held(i), r.Permits), i
		}
		break
	}
	return 0, index
}

// held returns what closed entry i holds.
func (l *SlidingLog) held(i int) int64 { return mod(l.after(i) - l.closed[i].before) }

// after returns the total after closed entry i.
func (l *SlidingLog) after(i int) int64 {
	if i+1 < len(l.closed) {
		return l.closed[i+1].before
	}
	return l.before
}

// take removes permits from entry i and closes the gap in the totals.
func (l *SlidingLog) take(i int, permits int64) {
	if permits == 0 {
		return
	}
	l.total = mod(l.total - permits)
	if i == len(l.closed) {
		return
	}
	emptied := l.held(i) == permits
	l.before = mod(l.before - permits)
	for j := i + 1; j < len(l.closed); j++ {
		l.closed[j].before = mod(l.closed[j].before - permits)
	}
	if emptied {
		l.closed = slices.Delete(l.closed, i, i+1)
	}
}

// reopen makes the entry before it the newest again, after what was booked last is cancelled.
func (l *SlidingLog) reopen(now int64) {
	last := len(l.closed) - 1
	if last < 0 {
		l.opened, l.newest = now, now
		return
	}
	l.newest, l.before, l.opened = l.closed[last].date, l.closed[last].before, l.closed[last].opened
	l.closed = l.closed[:last]
}

// mark returns what `booked` is: newest if that is ahead of the clock, or if the log holds more
// than the share, as it may by what was charged, or was booked ahead under a shorter window;
// else 0.
func (l *SlidingLog) mark(v view) int64 {
	if l.newest > v.now || v.used > l.share {
		return l.newest
	}
	return 0
}

// Peek looks, as [Endpoint.Peek] does.
func (l *SlidingLog) Peek(now int64) PeekReply {
	if l.epoch == 0 {
		return PeekReply{}
	}
	v := l.look(now)
	closed := l.quarantine(v)
	p := PeekReply{
		Status: OK, Epoch: l.epoch, Target: l.target, Share: l.lowered(v), Start: l.start,
		Used: v.used, Window: duration(l.window), Closed: duration(closed),
	}
	reset := int64(0)
	if v.used > 0 {
		p.Releases = l.releases(v)
		reset = l.last() + l.window - v.now
	}
	p.Reset = duration(max(reset, closed))
	var crests []crest
	if l.newest > v.now {
		crests = l.crests(v)
		for i := range crests {
			crests[i].start = max(crests[i].start-v.now, 0)
		}
	}
	p.weigh(crests)
	return p
}

// releases lists the entries in at most MaxReleases steps.
func (l *SlidingLog) releases(v view) (releases []Release) {
	count := len(l.closed) - v.live
	if l.total != l.before {
		count++
	}
	step := (count + MaxReleases - 1) / MaxReleases
	from := v.base
	for i := step; i < count+step; i += step {
		last := v.live + min(i, count) - 1
		date, after := l.newest, l.total
		if last < len(l.closed) {
			date, after = l.closed[last].date, l.after(last)
		}
		releases = append(releases, Release{In: duration(date + l.window - v.now), Permits: mod(after - from)})
		from = after
	}
	return releases
}
