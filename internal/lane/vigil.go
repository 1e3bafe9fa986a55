package lane

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit/script"
)

// This file is about shards that lose their memory while something that they granted is in use for
// long. Each is reminded by every process that lives, once for each loss: see script.Remind. A
// process that calls the shard hears that it is shut. One that does not has to look now and then.

const (
	looksPerListening = 4                      // how often a process looks while a shard listens
	leastPace         = 500 * time.Millisecond // but never more often than this
)

// vigil is the lanes of a process to shards that may have to be reminded. While there are any, one
// shard of each server is called now and then, unless one was heard of: a server that loses its
// memory loses that of all. There may be very many lanes, and mu is held by calls for permits: so
// nothing goes through the lanes while it is held.
type vigil struct {
	mu      sync.Mutex
	lanes   []*Lane       // is only appended to, or replaced
	timer   *time.Timer   // of the next look
	pace    time.Duration // after which it fires
	running bool          // there is to be a look, or one is under way
	looking bool          // the latter
	post    post
	alarms  alarms
}

// list returns the lanes. Nobody changes what was returned.
func (v *vigil) list() []*Lane {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.lanes[:len(v.lanes):len(v.lanes)]
}

// watch has the lane looked after.
func (e *Env) watch(l *Lane) {
	if e.Closed.Load() || !l.watched.CompareAndSwap(false, true) {
		return
	}
	v := &e.vigil
	v.mu.Lock()
	defer v.mu.Unlock()
	v.lanes = append(v.lanes, l)
	switch pace := l.pace(); {
	case !v.running:
		v.running, v.pace, v.timer = true, pace, time.AfterFunc(pace, e.look)
	case !v.looking && pace < v.pace:
		v.pace = pace
		v.timer.Reset(pace)
	}
}

// pace is how much time may go by without word of the shard.
func (l *Lane) pace() time.Duration {
	return max(script.Listening(l.Terms.Load().Window)/looksPerListening, leastPace)
}

// guarded is the lanes that lead to one server.
type guarded struct {
	lanes   []*Lane
	pace    time.Duration // the least of theirs
	witness *Lane         // of which was heard last; nil: all are in doubt
	met     int64
}

// look reminds what may have been lost, and looks where nothing was heard.
func (e *Env) look() {
	v := &e.vigil
	v.mu.Lock()
	busy := v.looking
	v.looking = true
	v.mu.Unlock()
	if busy {
		return
	}
	elapsed := e.Clock.Elapsed()
	for _, s := range e.guard() {
		silent := time.Duration(elapsed-s.met) >= s.pace
		for _, l := range s.lanes {
			p := l.past.Load()
			if p.due(elapsed, s.pace) {
				e.remindSoon(l)
			} else if !silent {
				p.spare(s.met)
			} else if l == s.witness {
				go e.question(l)
			}
		}
	}
}

// guard returns the lanes by server, but for those that need no looking after any more, and sets
// the timer.
func (e *Env) guard() (servers []*guarded) {
	now, v := e.Clock.Now(), &e.vigil
	all := v.list()
	kept := make([]*Lane, 0, len(all))
	for _, l := range all {
		if e.keeps(l, now) {
			kept = append(kept, l)
			servers = assign(servers, l)
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	later := v.lanes[len(all):]
	v.lanes, v.looking, v.pace = append(kept, later...), false, 0
	if v.running = len(v.lanes) > 0; !v.running {
		v.lanes = nil
		return nil
	}
	for _, s := range servers {
		v.paceAtMost(s.pace)
	}
	for _, l := range later {
		v.paceAtMost(l.pace())
	}
	v.timer.Reset(v.pace)
	return servers
}

// paceAtMost has the vigil's pace, 0 if there is none yet, be no longer than this. v.mu is held.
func (v *vigil) paceAtMost(pace time.Duration) {
	if v.pace == 0 || pace < v.pace {
		v.pace = pace
	}
}

// assign puts a lane to others that lead to its server.
func assign(servers []*guarded, l *Lane) []*guarded {
	i := slices.IndexFunc(servers, func(s *guarded) bool { return s.lanes[0].beside(l) })
	if i < 0 {
		i = len(servers)
		servers = append(servers, &guarded{pace: l.pace()})
	}
	s := servers[i]
	s.lanes, s.pace = append(s.lanes, l), min(s.pace, l.pace())
	if met, ok := l.past.Load().witnesses(); ok && (s.witness == nil || met > s.met) {
		s.witness, s.met = l, met
	}
	return servers
}

// keeps reports whether the lane stays in the vigil. One that leaves may come to hold something
// meanwhile: then either this one keeps it, or watch has added it anew.
func (e *Env) keeps(l *Lane, now int64) bool {
	if e.Closed.Load() {
		return false
	}
	if l.guarded(now) {
		return true
	}
	l.watched.Store(false)
	return l.guarded(now) && l.watched.CompareAndSwap(false, true)
}

// guarded reports whether the lane needs looking after. What was granted under terms that said so
// is forgotten under others.
func (l *Lane) guarded(now int64) bool {
	p, t := l.past.Load(), l.Terms.Load()
	if !t.Remembered {
		p.clear()
	}
	return t.Reminded && !l.Gone.Load() && p.holds(now, t)
}

// question asks a shard whether its server has lost its memory. If it has not, no other shard of
// the server has.
func (e *Env) question(l *Lane) {
	p := l.past.Load()
	if !p.claim() {
		return
	}
	l.remind(p)
	p.release()
	met, ok := p.witnesses()
	if !ok {
		return
	}
	for _, other := range e.vigil.list() {
		if other != l && other.beside(l) {
			other.past.Load().spare(met)
		}
	}
}

// beside reports whether two lanes lead to one server.
func (l *Lane) beside(other *Lane) bool {
	return l.Node == other.Node && l.Node.Together(l.Slot, other.Slot)
}

// remembered returns the lane's past, made if there is none.
func (l *Lane) remembered() *past {
	if p := l.past.Load(); p != nil {
		return p
	}
	l.past.CompareAndSwap(nil, &past{})
	return l.past.Load()
}

// remember notes what a reply granted to a call, and what it tells of the shard.
func (l *Lane) remember(c *call, t *Terms, received int64, r *script.TakeReply, held span) {
	p := l.remembered()
	lost := p.meets(answer{c.Sent, c.Began, received, r.Closed, r.Closing}, t)
	first := false
	switch {
	case l.Bursty:
		first = p.fills(c.Sent, received, refill{at: received + int64(r.Reset), under: r.Closing, epoch: r.Epoch,
			window: int64(t.Window), share: r.Share})
	case l.Sums:
		p.used(c.Sent, received, math.MaxInt64, r.Used-r.Granted)
	case held.due > received: // what is booked for a later window is not in what is used
		p.used(c.Sent, received, received, r.Used)
	default:
		p.used(c.Sent, received, received, r.Used-r.Granted)
	}
	if !l.Bursty && r.Granted > 0 {
		first = p.add(held, r.Closing, received, r.Granted, t.Window)
	}
	if first && l.Terms.Load().Reminded { // if only later ones are, whoever adopts them sees what is noted
		l.env.watch(l)
	}
	if lost && t.Reminded {
		l.env.remindSoon(l)
	}
}

// refill is how much sooner a bucket is full if it gets so many permits back.
func (t *Terms) refill(permits int64) time.Duration {
	if t.Share == 0 {
		return 0
	}
	return time.Duration(min(float64(permits)*float64(t.Window)/float64(t.Share), float64(script.MaxFill)))
}
