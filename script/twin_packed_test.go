package script

import (
	"time"

	"github.com/shardlimit/shardlimit/fairness"
	"github.com/shardlimit/shardlimit/internal/clock"
)

// twin is a shard of any algorithm in this process, equal to the scripts result for result: the
// oracle they are tested against. It is not safe for concurrent use, and unlike a shard in Redis it
// does not expire by itself.
//
// Every method takes now, the time of the shard's node in microseconds, and does what the method of
// [Endpoint] of the same name does. Requests must be such as Endpoint accepts, and made for the
// twin's algorithm.
type twin interface {
	Take(now int64, r *TakeRequest) TakeReply
	Reserve(now int64, r *ReserveRequest) ReserveReply
	Settle(now int64, r SettleRequest) SettleReply
	Peek(now int64) PeekReply
	Clear(now int64)
}

// newTwin returns absent state of a shard, nil if the algorithm is not one of ours.
func newTwin(a Algorithm) twin {
	switch a {
	case AlgorithmSlidingLog:
		return &packed[log[slidingLog], *log[slidingLog]]{}
	case AlgorithmSlidingCounter:
		return &packed[log[slidingCounter], *log[slidingCounter]]{}
	case AlgorithmFixedWindow:
		return &packed[log[fixedWindow], *log[fixedWindow]]{}
	case AlgorithmTokenBucket:
		return &packed[tokenBucket, *tokenBucket]{}
	case AlgorithmLeakyBucket:
		return &packed[leakyBucket, *leakyBucket]{}
	}
	return nil
}

// packed is the Go twin of the algorithms that keep a shard in one string: what all have in common,
// and what the algorithm keeps.
type packed[S any, R ruleOf[S]] struct {
	whole
	frame
	own  S
	fair fair
}

// frame is what every algorithm keeps. Times are shard time in microseconds.
type frame struct {
	epoch, revision      int64
	target, share, start int64
	window, burst        int64
	closedUntil, offset  int64
	touched              int64 // when the state was last written
	returned             int64 // when permits last came back early
	moment
}

// moment is that of the operation under way.
type moment struct {
	now     int64
	stepped bool // the clock went back
}

// rule is what an algorithm adds: the functions of its Lua part, by the same names.
type rule interface {
	begin(f *frame)
	advance(f *frame)
	regrid(f *frame, was int64)
	reshape(f *frame)
	ends(f *frame) int64
	held(f *frame) int64
	used(f *frame) int64
	free(f *frame) int64
	grant(f *frame, n int64)
	refund(f *frame, n, at int64) int64
	earliest(f *frame, n, after int64) (us int64, room bool)
	overdraw(f *frame, n, us int64) (count int64)
	book(f *frame, n, us int64) (at int64)
	soonest(f *frame) int64
	reset(f *frame) int64
	retry(f *frame, n int64) int64
	pace(f *frame) (us, part int64)
	releases(f *frame) []Release
}

type ruleOf[S any] interface {
	*S
	rule
}

// look returns a copy of the state brought to now: what an operation works on, and stores if it has
// reason to.
func (m *packed[S, R]) look(now int64) packed[S, R] {
	if !m.present(now) {
		absent := frame{moment: moment{now: now}, closedUntil: m.closedUntil}
		return packed[S, R]{whole: m.whole, fair: m.fair, frame: absent}
	}
	v := *m
	if v.over(now) {
		v.closedUntil = 0 // its share may fall now
	}
	v.now, v.stepped = now, false
	v.now += v.offset
	if v.now < v.touched {
		v.offset += v.touched - v.now
		v.now, v.stepped = v.touched, true
	}
	R(&v.own).advance(&v.frame)
	return v
}

// present reports whether there is a state. One whose quarantine is over is none: its share has to
// be confirmed anew. One that left to another algorithm has its share.
func (m *packed[S, R]) present(now int64) bool {
	return m.epoch != 0 && (!m.over(now) || m.share > 0)
}

// over reports whether the shard was closed and is so no more.
func (f *frame) over(now int64) bool { return f.closedUntil > 0 && now+f.offset >= f.closedUntil }

// store makes v the state, as if written just now.
func (m *packed[S, R]) store(v *packed[S, R]) {
	v.touched = v.now
	*m = *v
}

// term is what the ledger is told at the operation under way.
func (f *frame) term() fairness.Term {
	return paced(f.now, f.window, f.share, f.target)
}

// ahead is how far ahead permits may be booked, us: a window, or as long as a burst takes to come.
func (f *frame) ahead() int64 {
	if f.target == 0 || f.burst <= f.target {
		return f.window
	}
	return int64(min(float64(f.window)*float64(f.burst)/float64(f.target), far)) // as the script counts it
}

func (f *frame) quarantine() int64 { return max(f.closedUntil-f.now, 0) }

// told is what is told of a quarantine: nothing of a shard that leaves to another algorithm.
func (f *frame) told(closed int64) time.Duration {
	if f.share > 0 {
		return 0
	}
	return duration(closed)
}

// Take proposes a share and takes permits, as [Endpoint.Take] does.
func (m *packed[S, R]) Take(now int64, r *TakeRequest) TakeReply {
	if r.fenced(now) {
		grants, _ := Distribute(r.Room[:0], 0, r.Groups)
		return TakeReply{Status: Fenced, At: clock.ServerTime(now), Grants: grants}
	}
	if m.unserved(now, r) {
		grants, _ := Distribute(r.Room[:0], 0, r.Groups)
		return TakeReply{At: clock.ServerTime(now), Grants: grants}
	}
	v := m.look(now)
	own := R(&v.own)
	status, renew := v.adopt(r)
	available, closed := v.available(), v.quarantine()
	term := v.term()
	given, refused := v.fair.grant(term, available, own.soonest(&v.frame), closed == 0, r)
	granted := given.Granted
	var delay, part, retry int64
	if granted > 0 {
		delay, part = own.pace(&v.frame)
		own.grant(&v.frame, granted)
	}
	if refused > 0 {
		if retry = own.retry(&v.frame, refused); closed > 0 {
			retry = v.reopening(refused)
		}
	}
	reply := m.reply(&v, granted > 0 || renew)
	reply.Status, reply.Before, reply.Granted, reply.Free = status, available, granted, available-granted
	reply.Grants, reply.Callers, reply.Contended = given.Grants, given.Callers, given.Contended
	reply.At, reply.Retry = clock.ServerTime(v.now), wait(retry)
	if len(r.Groups) == 0 {
		reply.Start = v.start
	}
	if granted > 0 && r.Proposal.algorithm == AlgorithmLeakyBucket {
		reply.pace(delay, part, v.window)
	}
	m.fair = v.fair
	return reply
}

// available returns what can be granted.
func (m *packed[S, R]) available() int64 {
	if m.quarantine() > 0 {
		return 0
	}
	return R(&m.own).free(&m.frame)
}

// reopening returns when n permits may be asked for again in quarantine, us; -1: never, as there
// can never be as many.
func (f *frame) reopening(n int64) int64 {
	most := f.burst
	if most == 0 || f.target == 0 {
		most = f.target
	}
	if n > most {
		return -1
	}
	return f.quarantine()
}

// reply stores v if it must be, and says of it what takes and reservations have in common.
func (m *packed[S, R]) reply(v *packed[S, R], renew bool) TakeReply {
	if renew || v.stepped || v.fair.contended != m.fair.contended {
		m.store(v)
	}
	own, closed := R(&v.own), v.quarantine()
	next, again := own.soonest(&v.frame), own.reset(&v.frame)
	if closed > 0 {
		next, again = closed, max(again, closed)
	}
	return TakeReply{
		InForce: InForce{Epoch: v.epoch, Target: v.target, Share: v.share}, Used: own.used(&v.frame),
		Waits: Waits{Next: duration(next), Reset: duration(again), Closed: v.told(closed)},
		Early: v.returned > v.now-v.window,
	}
}

// Reserve takes permits at the first instant at which there is room for them, as [Endpoint.Reserve]
// does.
func (m *packed[S, R]) Reserve(now int64, r *ReserveRequest) ReserveReply {
	if r.take().fenced(now) {
		return ReserveReply{TakeReply: TakeReply{Status: Fenced, At: clock.ServerTime(now)}}
	}
	if m.unserved(now, r.take()) {
		return ReserveReply{TakeReply: TakeReply{At: clock.ServerTime(now)}}
	}
	v := m.look(now)
	own := R(&v.own)
	status, renew := v.adopt(r.take())
	available, at, granted, retry, delay, paced := v.available(), v.now, int64(0), int64(0), int64(0), int64(0)
	pay, charge := v.fair.due(v.term(), v.quarantine() == 0, r)
	if v.quarantine() > 0 {
		retry = v.reopening(r.Permits)
	} else if us, room := own.earliest(&v.frame, r.Permits, r.after()); us >= 0 && us < pay {
		paced = pay
		retry = paced
	} else if us == 0 ||
		room && us > 0 && us <= min(r.maxDelay(), v.ahead()) {
		granted, delay = r.Permits, us
		at = own.book(&v.frame, granted, us)
	} else {
		retry = us
	}
	reply := ReserveReply{TakeReply: m.reply(&v, granted > 0 || renew), Paced: duration(paced)}
	reply.Status, reply.Before, reply.Granted, reply.Free = status, available, granted, max(available-granted, 0)
	reply.At, reply.Retry, reply.Delay = clock.ServerTime(at), wait(retry), duration(delay)
	charge(granted, max(delay, retry))
	m.fair = v.fair
	return reply
}

// adopt creates the state or takes over a newer epoch, and moves the share.
func (m *packed[S, R]) adopt(r *TakeRequest) (status Status, renew bool) {
	p, own, had := r.Proposal, R(&m.own), m.frame
	status = OK
	goal := m.target // what the share falls to
	switch {
	case had.epoch == 0:
		status, renew = m.create(r), true
		goal = m.target
	case had.epoch < p.epoch || m.otherTerms(p):
		renew = true
		if m.share > m.target && m.quarantine() == 0 { // nobody has looked since it could fall to that
			m.lower(own, m.target)
		}
		if p.revision >= m.revision || m.target == 0 || p.target == 0 || m.epoch < p.epoch && m.window != p.window {
			m.revision, m.target, m.burst = p.revision, p.target, p.burst
		}
		if goal = m.target; m.epoch < p.epoch {
			m.epoch, m.start, m.window = p.epoch, m.share, p.window
			if p.held >= 0 {
				goal = min(goal, p.held)
			}
		} else { // what the other terms had put in force may be in use elsewhere
			goal = min(goal, p.floor)
		}
		if m.window != had.window {
			own.regrid(&m.frame, had.window)
		}
		m.retire(own, had)
	}
	if m.quarantine() == 0 {
		if m.share > goal {
			m.lower(own, goal)
			if goal < m.target && had.epoch < p.epoch {
				m.start = m.share
			}
		} else if m.epoch == p.epoch {
			m.share = max(m.share, min(p.floor, m.target))
		}
	}
	if had.epoch != 0 &&
		(m.share != had.share || m.window != had.window || m.burst != had.burst || m.target != had.target) {
		own.reshape(&m.frame)
		renew = true
	}
	return status, renew
}

// otherTerms reports whether a call brought other terms under the same epoch and for its window,
// and those in force are not of a higher revision.
func (f *frame) otherTerms(p *Proposal) bool {
	return f.epoch == p.epoch && p.revision >= f.revision && f.target > 0 && p.target > 0 && p.window == f.window &&
		(p.revision > f.revision || f.target != p.target || f.burst != p.burst)
}

// retire closes a shard that leaves to another algorithm, which does not know what this one let
// through, until that has left the window.
func (f *frame) retire(own rule, had frame) {
	switch {
	case f.share > 0 && f.target > 0:
		f.closedUntil = 0
	case f.share > 0 && f.burst > 0 && (f.closedUntil == 0 || f.window != had.window):
		f.closedUntil = 0
		if us := own.ends(f); us > 0 {
			f.closedUntil = f.now + us
		}
	}
}

// lower lets a share above its goal follow what is held down to it.
func (f *frame) lower(own rule, goal int64) {
	f.share = min(f.share, max(goal, own.held(f)))
}

// unserved reports whether a call does nothing: what it proposes is newer than the state, or there
// is none, and it comes too late for its word to be taken.
func (m *packed[S, R]) unserved(now int64, r *TakeRequest) bool {
	return (!m.present(now) || m.epoch < r.Proposal.epoch) && r.late(now)
}

// create makes the state of a shard that has none: fresh, or in quarantine if the node forgot what
// may still be in use.
func (m *packed[S, R]) create(r *TakeRequest) Status {
	p := r.Proposal
	left := int64(0)
	if m.closedUntil == 0 { // else a quarantine is over
		left = m.shut(m.now, r)
	}
	m.fair.contended = 0
	m.frame = frame{
		epoch: p.epoch, revision: p.revision, target: p.target, burst: p.burst, window: p.window,
		moment: moment{now: m.now},
	}
	var unused S
	m.own = unused
	status := Fresh
	if left > 0 {
		m.closedUntil = m.now + left
		status = Lost
	} else {
		m.share = min(p.floor, p.target)
	}
	R(&m.own).begin(&m.frame)
	return status
}

// Settle gives permits back or charges them, as [Endpoint.Settle] does, but keeps no marks.
func (m *packed[S, R]) Settle(now int64, r SettleRequest) SettleReply {
	take := r.take(AlgorithmSlidingLog) // a twin does not look at which
	if take.fenced(now) {
		return SettleReply{TakeReply: TakeReply{Status: Fenced, At: clock.ServerTime(now)}}
	}
	if m.unserved(now, take) {
		return SettleReply{TakeReply: TakeReply{At: clock.ServerTime(now)}}
	}
	v := m.look(now)
	own := R(&v.own)
	status, renew := v.adopt(take)
	back, charged := int64(0), int64(0)
	if r.Back > 0 {
		_, turns := any(own).(*leakyBucket)
		heard := r.Mark != "" || (turns || r.Caller.ID == "") && int64(r.At) > v.now
		if back = own.refund(&v.frame, r.Back, int64(r.At)); back > 0 && heard {
			v.returned = v.now
		}
	}
	available := v.available()
	if r.Charge > 0 && v.quarantine() == 0 {
		if charged = own.overdraw(&v.frame, r.Charge, int64(r.Owed/time.Microsecond)); charged > 0 {
			own.grant(&v.frame, charged)
		}
	}
	v.fair.restore(v.term(), &r.Caller, back-charged)
	reply := SettleReply{TakeReply: m.reply(&v, charged > 0 || back > 0 || renew), Back: back}
	reply.Status, reply.Before, reply.Granted, reply.Free = status, available, charged, max(available-charged, 0)
	reply.At, m.fair = clock.ServerTime(v.now), v.fair
	return reply
}

// settle lowers the share as far as it may now, where nothing is proposed.
func (m *packed[S, R]) settle() (lowered bool) {
	had, own := m.share, R(&m.own)
	if m.share > m.target && m.quarantine() == 0 {
		m.lower(own, m.target)
	}
	if m.share != had {
		own.reshape(&m.frame)
	}
	return m.share != had
}

// Peek looks, as [Endpoint.Peek] does.
func (m *packed[S, R]) Peek(now int64) PeekReply {
	if !m.present(now) {
		return PeekReply{}
	}
	v := m.look(now)
	v.settle()
	own, closed := R(&v.own), v.quarantine()
	p := PeekReply{
		Status: OK, Epoch: v.epoch, Target: v.target, Share: v.share, Start: v.start, Used: own.used(&v.frame),
		Window: duration(v.window), Closed: v.told(closed), Reset: duration(max(own.reset(&v.frame), closed)),
	}
	if closed == 0 {
		p.Free, p.Releases = own.free(&v.frame), own.releases(&v.frame)
	}
	return p
}

// Clear forgets usage, as [Endpoint.Clear] does.
func (m *packed[S, R]) Clear(now int64) {
	if !m.present(now) {
		return
	}
	v := m.look(now)
	v.share, v.closedUntil, v.fair.contended = min(v.share, v.target), min(v.closedUntil, v.now+liftedAfter), 0
	R(&v.own).begin(&v.frame)
	m.store(&v)
}

// late reports whether the proposal creates no state at this time of the node, in microseconds.
func (r *TakeRequest) late(now int64) bool {
	return r.Proposal.epoch == 0 || r.Deadline < 0 || r.Deadline > 0 && clock.ServerTime(now) > r.Deadline
}

// fenced reports whether the call comes too late at this time of the node, in microseconds.
func (r *TakeRequest) fenced(now int64) bool { return r.Fence > 0 && clock.ServerTime(now) > r.Fence }
