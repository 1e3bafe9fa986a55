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
	queue                       []pending // what is booked ahead, by date

	fair fair
}

// pending is a number of permits booked for dates from opened to date. base is the total of what
// has left the window that ends with it, or -1 if the window was longer when it was booked.
type pending struct{ date, opened, permits, base int64 }

// mostPending is with how many entries of the queue further bookings share the last one.
const mostPending = 256

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
	if last := max(l.touched, l.newest); v.now < last {
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

// fallDue moves what is due from the queue into the log.
func (l *SlidingLog) fallDue(v *view) {
	due := 0
	for due < len(l.queue) && l.queue[due].date <= v.now {
		b := l.queue[due]
		if l.total != l.before {
			l.closed = append(l.closed, closedEntry{date: l.newest, before: l.before, opened: l.opened})
		}
		l.before, l.opened, l.newest = l.total, max(b.opened, l.newest+1), b.date
		l.total = mod(l.total + b.permits)
		due++
	}
	if due > 0 {
		l.queue = slices.Delete(l.queue, 0, due)
		l.touched, l.offset, v.stepped = v.now, v.offset, false
	}
}

// ahead returns how many permits are booked ahead.
func (l *SlidingLog) ahead() (sum int64) {
	for _, b := range l.queue {
		sum += b.permits
	}
	return sum
}

// peak returns the most permits that a window holds which now is in and which ends now or with what
// is booked.
func (l *SlidingLog) peak(v view) int64 {
	most, sum := v.used, int64(0)
	for _, b := range l.queue {
		sum += b.permits
		if used, near := l.beside(v, b); near {
			most = max(most, used+sum)
		}
	}
	return most
}

// beside returns what is used in the window that ends with what is booked, if now is in it.
func (l *SlidingLog) beside(v view, b pending) (used int64, near bool) {
	if b.base < 0 {
		return v.used, b.opened-v.now < l.window
	}
	return mod(l.total - b.base), b.opened-v.now < l.window
}

// look is what refunds and peeks begin with.
func (l *SlidingLog) look(now int64) view {
	v := l.clock(now)
	l.fallDue(&v)
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
		return max(goal, min(l.share, max(l.peak(v), l.ahead())))
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
	return max(min(l.share, l.target)-l.peak(v), 0)
}

// first returns the date of the oldest entry; there must be one.
func (l *SlidingLog) first(v view) int64 {
	switch {
	case v.used == 0:
		return l.queue[0].date
	case v.live < len(l.closed):
		return l.closed[v.live].date
	}
	return l.newest
}

// last returns the date of the newest entry that holds anything; there must be one.
func (l *SlidingLog) last() int64 {
	if n := len(l.queue); n > 0 {
		return l.queue[n-1].date
	}
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
	l.opened, l.newest, l.queue = v.now, v.now, nil
	l.fair.contended = 0
	return ClearReply{Status: OK, Epoch: l.epoch, Share: l.share}
}

// Settle gives permits back or charges them, as [Endpoint.Settle] does, but keeps no marks.
func (l *SlidingLog) Settle(now int64, r SettleRequest) SettleReply {
	take := r.take(AlgorithmSlidingLog)
	if take.fenced(now) {
		return SettleReply{TakeReply: TakeReply{Status: Fenced, At: now}}
	}
	if l.epoch == 0 && take.late(now) {
		return SettleReply{TakeReply: TakeReply{At: now}}
	}
	v := l.clock(now)
	l.fallDue(&v)
	status, write := l.settle(&v, take.Proposal, r.Seen, take.known())
	back := l.giveBack(&v, r)
	charged, free := int64(0), l.free(v)
	if r.Charge > 0 && l.quarantine(v) == 0 {
		charged = overdrawn(r.Charge, max(l.share, l.target), v.used)
	}
	reply := SettleReply{TakeReply: l.enter(&v, write || back > 0, charged, v.now), Back: back}
	reply.Status, reply.Before, reply.Free = status, free, max(free-charged, 0)
	l.foresee(v, 0, &reply.TakeReply)
	l.fair.restore(l.term(v), &r.Caller, back-charged)
	return reply
}

// cancel takes permits out of the queue, and returns how many.
func (l *SlidingLog) cancel(r SettleRequest) int64 {
	if r.At < l.closedUntil {
		return 0
	}
	i := slices.IndexFunc(l.queue, func(b pending) bool { return b.date >= r.At })
	if i < 0 || l.queue[i].opened > r.At {
		return 0
	}
	b := &l.queue[i]
	n := min(b.permits, r.Back)
	if b.permits -= n; b.permits == 0 {
		l.queue = slices.Delete(l.queue, i, i+1)
	}
	return n
}

// giveBack takes permits off the entry that holds the grant, or off the queue, and returns how
// many.
func (l *SlidingLog) giveBack(v *view, r SettleRequest) (back int64) {
	holder := 0
	if r.At > v.now {
		back = l.cancel(r)
	} else if back, holder = l.holder(*v, r); back > 0 {
		l.take(holder, back)
		v.used -= back
	}
	if back > 0 {
		l.share = l.lowered(*v)
	}
	return back
}

// holder finds the entry that holds the grant (len(closed): the open one) and how much of it comes
// back.
func (l *SlidingLog) holder(v view, r SettleRequest) (back int64, index int) {
	index = len(l.closed)
	if r.At <= v.cut {
		return 0, index // nobody knows any more whether it came back before
	}
	if r.At >= l.opened {
		if r.At <= l.newest && l.newest > v.cut {
			back = min(mod(l.total-l.before), r.Back)
		}
		return back, index
	}
	for i := v.live; i < len(l.closed); i++ {
		entry := l.closed[i]
		if entry.date < r.At {
			continue
		}
		if entry.opened <= r.At {
			return min(l.held(i), r.Back), i
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

// take removes permits from entry i and closes the gap in the totals. Windows that end with what is
// booked, and may have begun after them, keep what they hold.
func (l *SlidingLog) take(i int, permits int64) {
	place := l.before
	if i < len(l.closed) {
		place = l.closed[i].before
	}
	for j := range l.queue {
		if b := &l.queue[j]; b.base >= 0 && mod(l.total-b.base) < mod(l.total-place) {
			b.base = mod(b.base - permits)
		}
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

// Peek looks, as [Endpoint.Peek] does.
func (l *SlidingLog) Peek(now int64) PeekReply {
	if l.epoch == 0 {
		return PeekReply{}
	}
	seen := *l // what is due is moved in it
	seen.closed, seen.queue = slices.Clone(l.closed), slices.Clone(l.queue)
	v := seen.look(now)
	closed := seen.quarantine(v)
	p := PeekReply{
		Status: OK, Epoch: l.epoch, Target: l.target, Share: seen.lowered(v), Start: l.start,
		Used: v.used + seen.ahead(), Window: duration(l.window), Closed: duration(closed),
	}
	seen.share = p.Share
	p.Free = seen.free(v)
	reset := int64(0)
	if p.Used > 0 {
		p.Releases = seen.releases(v)
		reset = seen.last() + l.window - v.now
	}
	p.Reset = duration(max(reset, closed))
	return p
}

// releases lists the entries in at most MaxReleases steps.
func (l *SlidingLog) releases(v view) (releases []Release) {
	type dated struct{ date, permits int64 }
	var all []dated
	for i := v.live; i < len(l.closed); i++ {
		all = append(all, dated{l.closed[i].date, l.held(i)})
	}
	if n := mod(l.total - l.before); n > 0 && v.used > 0 {
		all = append(all, dated{l.newest, n})
	}
	for _, b := range l.queue {
		all = append(all, dated{b.date, b.permits})
	}
	step := (len(all) + MaxReleases - 1) / MaxReleases
	for i := 0; i < len(all); i += step {
		r := Release{}
		for _, e := range all[i:min(i+step, len(all))] {
			r.In, r.Permits = duration(e.date+l.window-v.now), r.Permits+e.permits
		}
		releases = append(releases, r)
	}
	return releases
}
