package script

import (
	"fmt"
	"time"

	"github.com/shardlimit/shardlimit/fairness"
	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/columns"
	"github.com/shardlimit/shardlimit/internal/limittest/ledger"
)

// twin is a shard of any algorithm in this process, equal to the scripts result for result: the
// oracle they are tested against. It is not safe for concurrent use, and unlike a shard in Redis it
// does not expire by itself.
//
// Every method that takes now, the time of the shard's node in microseconds, does what the method
// of [Endpoint] of the same name does. Requests must be such as Endpoint accepts, and made for the
// twin's algorithm.
type twin struct {
	algorithm Algorithm
	whole
	frame
	own  rule
	fair fair
}

// newTwin returns absent state of a shard.
func newTwin(a Algorithm) *twin {
	switch a {
	case AlgorithmTokenBucket:
		return &twin{algorithm: a, own: &tokenBucket{}}
	case AlgorithmLeakyBucket:
		return &twin{algorithm: a, own: &leakyBucket{}}
	}
	return &twin{algorithm: a, own: &log{dates: logs[a]}}
}

// clone returns a copy that shares nothing with m.
func (m *twin) clone() *twin {
	other := *m
	other.own, other.fair.ledger = m.own.clone(), m.fair.ledger.Clone()
	return &other
}

// head renders the state as the scripts store it.
func (m *twin) head() string {
	if m.epoch == 0 {
		return ""
	}
	sign := ";"
	if m.closedUntil+m.offset+m.fair.contended > 0 {
		sign = fmt.Sprintf(":%d %d %d;", m.closedUntil, m.offset, m.fair.contended)
	}
	return fmt.Sprintf("%s%d %d %d %d %d %d", letters[m.algorithm], m.epoch, m.revision, m.target, m.window, m.burst,
		m.share) + string(columns.Packed.Append([]byte(sign), 0, m.start, m.returned, m.touched)) + m.own.text()
}

// accounts is the ledger as [stored] has it.
func (m *twin) accounts() string { return fmt.Sprint(m.fair.ledger.Fields()) }

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
	clone() rule
	text() string
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
	earliest(f *frame, n, after, kept int64) (us int64, room bool)
	booked() bool
	overdraw(f *frame, n, us int64) (count int64)
	book(f *frame, n, us int64) (at int64)
	soonest(f *frame) int64
	reset(f *frame) int64
	retry(f *frame, n int64) int64
	pace(f *frame) (us, part int64)
	releases(f *frame) []Release
}

// look returns a copy of the state brought to now: what an operation works on, and stores if it has
// reason to. It shares the ledger.
func (m *twin) look(now int64) *twin {
	v := *m
	v.own = m.own.clone()
	if !m.present(now) {
		v.frame = frame{moment: moment{now: now}, closedUntil: m.closedUntil}
		return &v
	}
	if v.over(now) {
		v.closedUntil = 0 // its share may fall now
	}
	v.now, v.stepped = now+v.offset, false
	if v.now < v.touched {
		v.offset += v.touched - v.now
		v.now, v.stepped = v.touched, true
	}
	v.own.advance(&v.frame)
	return &v
}

// open returns a copy of the state brought to now, which has adopted what a call proposes. There is
// none if the call does nothing: it comes too late, or too late for its word to be taken for what
// would be new.
func (m *twin) open(now int64, r *TakeRequest) (v *twin, status Status, renew bool) {
	switch {
	case r.Fence > 0 && clock.ServerTime(now) > r.Fence:
		return nil, Fenced, false
	case (!m.present(now) || m.epoch < r.Proposal.epoch) && r.late(now):
		return nil, Absent, false
	}
	v = m.look(now)
	status, renew = v.adopt(r)
	return v, status, renew
}

// present reports whether there is a state. One whose quarantine is over is none: its share has to
// be confirmed anew. One that left to another algorithm has its share.
func (m *twin) present(now int64) bool {
	return m.epoch != 0 && (!m.over(now) || m.share > 0)
}

// over reports whether the shard was closed and is so no more.
func (f *frame) over(now int64) bool { return f.closedUntil > 0 && now+f.offset >= f.closedUntil }

// store makes v the state, as if written just now.
func (m *twin) store(v *twin) {
	v.touched = v.now
	*m = *v
}

// term is what the ledger is told: its participants are paced by the share, or by what that rises
// to. While a share rises, permits leave the window elsewhere as fast as if it were all here, and
// come here at once.
func (f *frame) term() ledger.Term {
	return ledger.Term{Now: f.now, Window: f.window, Share: max(f.share, f.target)}
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
func (m *twin) Take(now int64, r *TakeRequest) TakeReply {
	v, status, renew := m.open(now, r)
	if v == nil {
		grants, _ := Distribute(r.Room[:0], 0, r.Groups)
		return TakeReply{Status: status, At: clock.ServerTime(now), Grants: grants}
	}
	closed := v.quarantine()
	v.fair.ledger.Booked = v.own.booked()
	reply, refused := v.fair.grant(v.term(), v.available(), v.own.soonest(&v.frame), closed == 0, r)
	var delay, part, retry int64
	if reply.Granted > 0 {
		delay, part = v.own.pace(&v.frame)
		v.own.grant(&v.frame, reply.Granted)
	}
	if refused > 0 {
		if retry = v.own.retry(&v.frame, refused); closed > 0 {
			retry = v.reopening(refused)
		}
	}
	reply.Status, reply.At, reply.Retry = status, clock.ServerTime(v.now), wait(retry)
	reply = m.reply(v, reply.Granted > 0 || renew, reply)
	if len(r.Groups) == 0 {
		reply.Start = v.start
	}
	if reply.Granted > 0 && m.algorithm == AlgorithmLeakyBucket {
		reply.turns = turns{delay, part, v.window}
	}
	return reply
}

// available returns what can be granted.
func (m *twin) available() int64 {
	if m.quarantine() > 0 {
		return 0
	}
	return m.own.free(&m.frame)
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

// reply stores v if it must be, and adds what all replies say of it.
func (m *twin) reply(v *twin, renew bool, reply TakeReply) TakeReply {
	if renew || v.stepped || v.fair.contended != m.fair.contended {
		m.store(v)
	}
	m.fair = v.fair
	closed, next, again := v.quarantine(), v.own.soonest(&v.frame), v.own.reset(&v.frame)
	if closed > 0 {
		next, again = closed, max(again, closed)
	}
	reply.Epoch, reply.Target, reply.Share, reply.Used = v.epoch, v.target, v.share, v.own.used(&v.frame)
	reply.Free = max(reply.Before-reply.Granted, 0)
	reply.Next, reply.Reset, reply.Closed = duration(next), duration(again), v.told(closed)
	reply.Early = v.returned > v.now-v.window
	return reply
}

// Reserve takes permits at the first instant at which there is room for them, as [Endpoint.Reserve]
// does.
func (m *twin) Reserve(now int64, r *ReserveRequest) ReserveReply {
	v, status, renew := m.open(now, r.take())
	if v == nil {
		return ReserveReply{TakeReply: TakeReply{Status: status, At: clock.ServerTime(now)}}
	}
	available, at, granted, retry, delay, paced := v.available(), v.now, int64(0), int64(0), int64(0), int64(0)
	pay, kept, charge := v.fair.due(v.term(), v.quarantine() == 0, r)
	if v.quarantine() > 0 {
		retry = v.reopening(r.Permits)
	} else if us, room := v.own.earliest(&v.frame, r.Permits, r.after(), kept); us >= 0 && us < pay {
		paced = pay
		retry = paced
	} else if us == 0 || room && us > 0 && us <= min(r.maxDelay(), v.ahead()) {
		granted, delay = r.Permits, us
		at = v.own.book(&v.frame, granted, us)
		available = v.own.free(&v.frame) + granted
	} else {
		retry = us
	}
	charge(granted, max(delay, retry))
	reply := ReserveReply{TakeReply: m.reply(v, granted > 0 || renew, TakeReply{Status: status,
		Before:  available,
		Granted: granted, At: clock.ServerTime(at), Waits: Waits{Retry: wait(retry)}}), Paced: duration(paced)}
	reply.Delay = duration(delay)
	return reply
}

// adopt creates the state or takes over a newer epoch, and moves the share.
func (m *twin) adopt(r *TakeRequest) (status Status, renew bool) {
	p, own, had := r.Proposal, m.own, m.frame
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
		if m.window != had.window || m.target >= 2*had.target {
			m.fair.contended = 0
		}
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

// create makes the state of a shard that has none: fresh, or in quarantine if the node forgot what
// may still be in use.
func (m *twin) create(r *TakeRequest) Status {
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
	status := Fresh
	if left > 0 {
		m.closedUntil = m.now + left
		status = Lost
	} else {
		m.share = min(p.floor, p.target)
	}
	m.own.begin(&m.frame)
	return status
}

// Settle gives permits back or charges them, as [Endpoint.Settle] does, but keeps no marks.
func (m *twin) Settle(now int64, r SettleRequest) SettleReply {
	v, status, renew := m.open(now, r.take(m.algorithm))
	if v == nil {
		return SettleReply{TakeReply: TakeReply{Status: status, At: clock.ServerTime(now)}}
	}
	back, charged := int64(0), int64(0)
	if r.Back > 0 {
		turns := m.algorithm == AlgorithmLeakyBucket
		heard := r.Mark != "" || (turns || r.Caller.ID == "") && int64(r.At) > v.now
		if back = v.own.refund(&v.frame, r.Back, int64(r.At)); back > 0 && heard {
			v.returned = v.now
		}
	}
	available := v.available()
	if r.Charge > 0 && v.quarantine() == 0 {
		if charged = v.own.overdraw(&v.frame, r.Charge, int64(r.Owed/time.Microsecond)); charged > 0 {
			v.own.grant(&v.frame, charged)
		}
	}
	v.fair.restore(v.term(), &r.Caller, back-charged)
	return SettleReply{TakeReply: m.reply(v, charged > 0 || back > 0 || renew, TakeReply{Status: status,
		Before:  available,
		Granted: charged, At: clock.ServerTime(v.now)}), Back: back}
}

// Peek looks, as [Endpoint.Peek] does.
func (m *twin) Peek(now int64) PeekReply {
	if !m.present(now) {
		return PeekReply{}
	}
	v := m.look(now)
	closed := v.quarantine()
	if had := v.share; had > v.target && closed == 0 { // it falls as far as it may
		if v.lower(v.own, v.target); v.share != had {
			v.own.reshape(&v.frame)
		}
	}
	p := PeekReply{
		Status: OK, Epoch: v.epoch, Target: v.target, Share: v.share, Start: v.start, Used: v.own.used(&v.frame),
		Window: duration(v.window), Closed: v.told(closed), Reset: duration(max(v.own.reset(&v.frame), closed)),
	}
	if closed == 0 {
		p.Free, p.Releases = v.own.free(&v.frame), v.own.releases(&v.frame)
	}
	return p
}

// Clear forgets usage, as [Endpoint.Clear] does.
func (m *twin) Clear(now int64) {
	if !m.present(now) {
		return
	}
	v := m.look(now)
	v.share, v.closedUntil, v.fair.contended = min(v.share, v.target), min(v.closedUntil, v.now+liftedAfter), 0
	v.own.begin(&v.frame)
	m.store(v)
}

// Ledger lists the participants, as [Endpoint.Ledger] does.
func (m *twin) Ledger(now int64) LedgerReply {
	if !m.present(now) {
		return LedgerReply{}
	}
	v := m.look(now)
	b := LedgerReply{Status: OK, Contended: v.fair.contends(v.term())}
	if b.Contended {
		var err error
		if b.Standings, err = fairness.Standings(v.fair.ledger.Fields(), v.now, v.window); err != nil {
			panic(err) // whatever is used and reported, the scripts can read what they wrote
		}
	}
	return b
}

// late reports whether the proposal creates no state at this time of the node, in microseconds.
func (r *TakeRequest) late(now int64) bool {
	return r.Proposal.epoch == 0 || r.Deadline < 0 || r.Deadline > 0 && clock.ServerTime(now) > r.Deadline
}
