package dispatch

import (
	"cmp"
	"context"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/internal/telemetry"
	"github.com/shardlimit/shardlimit/script"
)

// request is one script call on behalf of batches for the shards of one node. It is used again and
// again, except for a slow call, and after its context has ended or the watchdog has given it up:
// then a late reply still belongs to it.
type request struct {
	queue    *sendQueue // nil for a slow call
	sections []*section // those of the call under way; behind them others to be used again
	asks     []*script.Section
	load     int   // of the sections, as maxLoad counts it
	began    int64 // when it was sent
	failed   bool  // without a good answer
	summary
	watchdog
}

// summary is what is told of those whom a request serves.
type summary struct {
	oldest int64
	split  bool // some limit has shards to go to instead
	serves []telemetry.Served
	links  []trace.Link
}

// newRequest returns a request that carries nothing. Another send queue may have used it before.
func newRequest(e *Env, q *sendQueue) *request {
	req, used := e.requests.Get().(*request)
	if !used {
		req = &request{}
		req.watch(e, req.giveUp)
	}
	req.queue = q
	return req
}

// clear makes room for the next call.
func (req *request) clear() {
	for _, s := range req.sections {
		s.shard, s.batch, s.key, s.terms = nil, nil, nil, nil
	}
	clear(req.asks)
	req.sections = req.sections[:0]
	req.summary = summary{serves: req.serves[:0], links: req.links[:0]}
}

// add adds a batch.
func (req *request) add(sh *Shard, b *batch) {
	s := req.section(sh)
	s.batch, s.groups = b, b.groups(s.groups[:0])
	req.links = append(req.links, b.links...)
	req.serve(sh, len(b.classes), b.calls(), b.oldest)
}

// addKey adds an ask for a key.
func (req *request) addKey(a *KeyAsk) {
	s := req.section(a.shard())
	s.key, s.groups = a, append(s.groups[:0], script.Group{Size: a.n, Count: 1})
	if a.link != nil {
		req.links = append(req.links, *a.link)
	}
	req.serve(a.shard(), 1, 1, a.since)
}

// section adds a section for a shard.
func (req *request) section(sh *Shard) *section {
	n := len(req.sections)
	req.sections = slices.Grow(req.sections, 1)[:n+1]
	if req.sections[n] == nil {
		req.sections[n] = &section{}
	}
	s := req.sections[n]
	s.shard, s.Request = sh, &s.take
	s.sent.Store(false)
	return s
}

// serve counts the calls of the last section: what it loads, how many they are, and when the oldest
// of them began.
func (req *request) serve(sh *Shard, load int, calls, oldest int64) {
	req.load += load
	if len(req.sections) == 1 || oldest < req.oldest {
		req.oldest = oldest
	}
	req.split = req.split || sh.Terms.Load().splitOver(sh.Node)
	for i := range req.serves {
		if req.serves[i].Limiter == sh.Metrics {
			req.serves[i].Calls += calls
			return
		}
	}
	req.serves = append(req.serves, telemetry.Served{Limiter: sh.Metrics, Calls: calls})
}

// run makes the call and hands out the answers. It returns the request to use next, and whether
// that is to go on with what waits; nil if the watchdog has given the call up before it ended.
func (req *request) run() (next *request, goesOn bool) {
	now := req.env.Clock.Now()
	req.began, req.failed = now, false
	req.begin(now, req.env.budget(now-req.oldest, req.split))
	received := req.call(req)
	awaited, ended := req.finish()
	if !awaited {
		return nil, false
	}
	req.failed = !slices.ContainsFunc(req.sections, func(s *section) bool { return s.Err == nil })
	goesOn = req.queue.answered(req)
	req.answer(received)
	if ended {
		return newRequest(req.env, req.queue), goesOn
	}
	req.clear()
	return req, goesOn
}

// sendSlowly sends a batch in a slow call, by itself: what it relies on has to be confirmed first.
// before is what an earlier call for it was told, if any.
func (sh *Shard) sendSlowly(b *batch, before told) {
	req := newRequest(sh.env, nil)
	req.add(sh, b)
	s := req.sections[0]
	now := sh.env.Clock.Now()
	req.begin(now, sh.env.budget(now-req.oldest, req.split))
	received, left := int64(0), false
	err := basis{shard: sh}.present(req, before, func(on basis) (script.Status, clock.ServerTime, error) {
		if left = sh.left(); left { // as was read meanwhile
			return script.OK, 0, nil
		}
		s.terms = on.fixed
		received = req.call(req)
		return s.Reply.Status, s.Reply.At, s.Err
	})
	switch awaited, _ := req.finish(); {
	case !awaited:
	case left || err != nil && sh.left() && !s.sent.Load():
		sh.deny(b, sh.env.Clock.Now())
	case err != nil:
		s.refuse(err)
	default:
		s.deliver(received)
	}
}

// budget returns the time that a call has whose oldest ask has that age: half of it if the limit
// has shards to go to instead.
func (e *Env) budget(age int64, split bool) time.Duration {
	left := e.CallTimeout - time.Duration(age)
	if split {
		left = min(left, e.CallTimeout/2)
	}
	return left
}

// call makes the script call, and learns from the reply.
func (req *request) call(ctx context.Context) (received int64) {
	first := req.sections[0].shard
	about := telemetry.Call{Operation: telemetry.Take, Limiter: first.Metrics, Served: req.serves,
		Shards: len(req.sections)}
	if about.Shards == 1 {
		about.Shard = first.Tag()
	}
	ctx, n, err := first.Node.Begin(ctx, first.Slot, about, req.links)
	if err != nil {
		for _, s := range req.sections {
			s.Err = err
		}
		return 0
	}
	req.asks = req.asks[:0]
	for i, s := range req.sections {
		if i > 0 && s.key != nil && s.shard == req.sections[i-1].shard {
			s.relyOn(req.sections[i-1])
		} else {
			s.prepare(basis{s.shard, cmp.Or(s.terms, s.shard.Terms.Load())}, n.Sent)
		}
		s.Ref = s.shard.Ref
		if s.key != nil {
			s.Ref = s.key.ref
		}
		req.asks = append(req.asks, &s.Section)
		s.sent.Store(true)
	}
	n.Scripts.TakeAll(ctx, req.asks)
	received = n.Finish(ctx, req.verdict(first))
	req.eachEndpoint(func(sh *Shard) {
		if sh != first {
			sh.Node.Heard(sh.Slot, req.verdict(sh))
		}
	})
	for _, s := range req.sections {
		if s.Err == nil {
			s.learn(&call{n, s.shard, telemetry.Take}, received)
		}
	}
	return received
}

// verdict returns what the call tells of what serves a shard: an answer, if it gave one for any.
func (req *request) verdict(sh *Shard) (err error) {
	for _, s := range req.sections {
		if sh.Node.Together(s.shard.Slot, sh.Slot) {
			if s.Err == nil {
				return nil
			}
			if !node.IsAnswer(err) {
				err = s.Err
			}
		}
	}
	return err
}

// eachEndpoint does something with the first shard of each part of the node that fails by itself.
func (req *request) eachEndpoint(do func(*Shard)) {
	for i, s := range req.sections {
		if !slices.ContainsFunc(req.sections[:i], func(o *section) bool {
			return s.shard.Node.Together(o.shard.Slot, s.shard.Slot)
		}) {
			do(s.shard)
		}
	}
}

// answer answers everybody, but those whose shard has no state: they go on by themselves.
func (req *request) answer(received int64) {
	for _, s := range req.sections {
		switch {
		case s.Err != nil:
			s.refuse(s.Err)
		case s.absent() && s.key != nil:
			s.key.end(ErrNotPlain)
		case s.absent():
			go s.shard.sendSlowly(s.batch, told{s.Reply.Status, s.Reply.At})
		default:
			s.deliver(received)
		}
	}
}

// giveUp answers the asks of a call that does not come back.
func (req *request) giveUp() {
	req.failed = true
	cause := node.ErrAway
	if req.sections[0].sent.Load() {
		cause = context.DeadlineExceeded
		req.eachEndpoint(func(sh *Shard) { sh.Node.Heard(sh.Slot, cause) })
	}
	for _, s := range req.sections {
		if s.key != nil { // the goroutine of this call may come back late, and tell it what it heard
			s.key.kept = true
		}
		s.refuse(cause)
	}
	if req.queue == nil {
		return
	}
	if next := req.queue.ended(req, false); next != nil {
		go req.queue.send(next)
	}
}
