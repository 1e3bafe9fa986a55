package dispatch

import (
	"context"
	"slices"

	"go.opentelemetry.io/otel/trace"

	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/internal/telemetry"
	"github.com/shardlimit/shardlimit/script"
)

// flight is one script call on behalf of batches for the shards of one node. It is used again and
// again, except after its context has ended or the watchdog has given it up: then a late reply
// still belongs to it.
type flight struct {
	outbox   *outbox
	sections []*section // those of the call under way; behind them others to be used again
	asks     []script.Section
	served   []*Lane // see ranges
	load     int     // how much that is, see maxLoad
	began    int64   // when it was sent
	failed   bool    // without a good answer
	summary
	watchdog
}

// summary is what is told of those whom a flight serves.
type summary struct {
	oldest int64
	split  bool // some limit has shards to go to instead
	serves []telemetry.Served
	links  []trace.Link
}

// newFlight returns a flight that carries nothing, which may have been another outbox's before.
func newFlight(o *outbox) *flight {
	f, used := o.env.flights.Get().(*flight)
	if !used {
		f = &flight{}
		f.watch(o.env, f.giveUp)
	}
	f.outbox = o
	return f
}

// clear makes room for the next call.
func (f *flight) clear() {
	for _, s := range f.sections {
		s.lane, s.batch, s.key, s.terms = nil, nil, nil, nil
	}
	clear(f.asks)
	clear(f.served)
	f.sections, f.asks = f.sections[:0], f.asks[:0]
	f.summary = summary{serves: f.serves[:0], links: f.links[:0]}
}

// board adds a batch.
func (f *flight) board(l *Lane, b *batch) {
	s := f.section(l)
	s.batch, s.groups = b, b.groups(s.groups[:0])
	f.links = append(f.links, b.links...)
	f.serve(l, len(b.classes), b.calls(), b.oldest)
}

// boardKey adds an ask for a key.
func (f *flight) boardKey(a *KeyAsk) {
	s := f.section(a.lane())
	s.key, s.groups = a, append(s.groups[:0], script.Group{Size: a.n, Count: 1})
	if a.link != nil {
		f.links = append(f.links, *a.link)
	}
	f.serve(a.lane(), 1, 1, a.since)
}

// section adds one for a shard that the lane leads to.
func (f *flight) section(l *Lane) *section {
	n := len(f.sections)
	f.sections = slices.Grow(f.sections, 1)[:n+1]
	if f.sections[n] == nil {
		f.sections[n] = &section{}
	}
	s := f.sections[n]
	s.lane = l
	s.sent.Store(false)
	return s
}

// serve counts the calls of the last section: what it loads, how many they are, and when the oldest
// of them began.
func (f *flight) serve(l *Lane, load int, calls, oldest int64) {
	f.load += load
	if len(f.sections) == 1 || oldest < f.oldest {
		f.oldest = oldest
	}
	f.split = f.split || l.Terms.Load().splitOver(l.Node)
	for i := range f.serves {
		if f.serves[i].Limiter == l.Metrics {
			f.serves[i].Calls += calls
			return
		}
	}
	f.serves = append(f.serves, telemetry.Served{Limiter: l.Metrics, Calls: calls})
}

// run makes the call and hands out the answers. It returns the flight to use next, and whether that
// is to go on with what waits; nil if the watchdog has given the call up before it ended.
func (f *flight) run() (next *flight, goesOn bool) {
	now := f.env.Clock.Now()
	f.began, f.failed = now, false
	f.begin(now, f.env.budget(now-f.oldest, f.split))
	received, err := f.call(f)
	awaited, ended := f.finish()
	if !awaited {
		return nil, false
	}
	f.failed = err != nil || !slices.ContainsFunc(f.asks, func(s script.Section) bool { return s.Err == nil })
	goesOn = f.outbox.land(f)
	f.land(received, err)
	if ended {
		return newFlight(f.outbox), goesOn
	}
	f.clear()
	return f, goesOn
}

// call makes the script call, and learns from the reply.
func (f *flight) call(ctx context.Context) (received int64, err error) {
	first := f.sections[0].lane
	about := telemetry.Call{Operation: telemetry.Take, Limiter: first.Metrics, Served: f.serves, Shards: len(f.sections)}
	if about.Shards == 1 {
		about.Shard = first.Tag()
	}
	ctx, n, err := first.Node.Begin(ctx, first.Slot, about, f.links)
	if err != nil {
		return 0, err
	}
	for i, s := range f.sections {
		if i > 0 && s.key != nil && s.lane == f.sections[i-1].lane {
			s.relyOn(f.sections[i-1])
		} else {
			s.prepare(basis{s.lane, s.lane.Terms.Load()}, n.Sent)
		}
		ref := s.lane.Ref
		if s.key != nil {
			ref = s.key.ref
		}
		f.asks = append(f.asks, script.Section{Ref: ref, Request: &s.req})
		s.sent.Store(true)
	}
	err = n.Scripts.TakeAll(ctx, f.asks)
	received = n.Finish(ctx, f.verdict(first, err))
	f.served = f.ranges(f.served[:0])
	for _, l := range f.served[1:] {
		l.Node.Heard(l.Slot, f.verdict(l, err))
	}
	for i, s := range f.sections {
		if err == nil {
			s.reply = f.asks[i].Reply
		} else {
			f.asks[i].Err = err
		}
		if f.asks[i].Err == nil {
			s.learn(&call{n, s.lane, telemetry.Take}, received)
		}
	}
	return received, err
}

// verdict is what the call tells of what serves a lane: that it answers, if it said of one shard
// what a server in good health says.
func (f *flight) verdict(l *Lane, whole error) (err error) {
	if whole != nil {
		return whole
	}
	for i, s := range f.sections {
		if l.Node.Together(s.lane.Slot, l.Slot) {
			if err = f.asks[i].Err; err == nil || node.IsAnswer(err) {
				return nil
			}
		}
	}
	return err
}

// ranges appends a lane of each part of the node that fails by itself, the first section's first.
func (f *flight) ranges(lanes []*Lane) []*Lane {
	for _, s := range f.sections {
		if !slices.ContainsFunc(lanes, func(l *Lane) bool { return l.Node.Together(l.Slot, s.lane.Slot) }) {
			lanes = append(lanes, s.lane)
		}
	}
	return lanes
}

// land answers everybody on board, but those whose shard has no state: they go on by themselves.
func (f *flight) land(received int64, err error) {
	for i, s := range f.sections {
		switch {
		case err != nil:
			s.refuse(err)
		case f.asks[i].Err != nil:
			s.refuse(f.asks[i].Err)
		case s.absent() && s.key != nil:
			s.key.end(ErrNotPlain)
		case s.absent():
			go s.lane.detour(s.batch, told{s.reply.Status, s.reply.At})
		default:
			s.deliver(received)
		}
	}
}

// giveUp answers the asks of a call that does not come back.
func (f *flight) giveUp() {
	f.failed = true
	cause := node.ErrAway
	if f.sections[0].sent.Load() {
		cause = context.DeadlineExceeded
		for _, l := range f.ranges(nil) { // the call may come back just now, and has a list of its own
			l.Node.Heard(l.Slot, cause)
		}
	}
	for _, s := range f.sections {
		if s.key != nil { // the goroutine of this call may come back late, and tell it what it heard
			s.key.kept = true
		}
		s.refuse(cause)
	}
	if next := f.outbox.landed(f, false); next != nil {
		go f.outbox.fly(next)
	}
}
