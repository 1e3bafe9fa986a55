package node

import (
	"context"
	"errors"
	"math"
	"net"
	"strings"
	"time"

	"github.com/shardlimit/shardlimit/internal/chance"
	"github.com/shardlimit/shardlimit/internal/telemetry"
	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

// report tells the breaker of an endpoint how a call to a slot of it ended. A call that was not
// sent in its time, or at all, tells nothing. That one was not answered in its time tells only that
// something is late, and this process may be: then a look follows, whose silence is judged.
func (e *Endpoint) report(slot int, about telemetry.Operation, looks bool, err error) {
	b := &e.breaker
	late := isSilence(err)
	if err == nil {
		e.node.serves(looks, about)
	}
	switch {
	case err == nil || IsAnswer(err) || about.Rare() && mistaken(err, true) != nil:
		e.answers.Add(1)
		if b.succeeded(e.node.env.Clock.Now()) {
			e.node.tell("node answers again", slot, nil)
			e.node.env.Back()
		}
	case about == telemetry.Vote && b.ready() && mistaken(err, true) != nil:
		e.node.blame(about, err) // takes may go on: they need other rights
	case late && script.NotExecuted(err) && b.ready(), errors.Is(err, script.ErrInvalidRequest):
	case late && !looks && b.ready():
		if e.looking.CompareAndSwap(false, true) {
			e.node.env.Spawn(func(ctx context.Context) {
				defer e.looking.Store(false)
				e.look(ctx, slot)
			})
		}
	default:
		e.failed(slot, about, err)
	}
}

// failed opens the breaker of an endpoint, or keeps it open, and notes why.
func (e *Endpoint) failed(slot int, about telemetry.Operation, err error) {
	now := e.node.env.Clock.Now()
	news := e.breaker.broke(now)
	text, said := script.Said(err)
	if last := e.cause.Load(); last != nil && errors.Is(err, net.ErrClosed) && now-last.at < int64(BreakerMaxPause) {
		err = last.err // for which this process hung up: see hangUp
	}
	e.cause.Store(&failure{err, now})
	mistake := e.node.blame(about, err)
	if said && demoted(text) {
		e.node.hangUp()
	}
	if !news || mistake {
		return
	}
	switch {
	case said:
		e.node.tell("node refuses calls", slot, err)
	case isSilence(err):
		e.node.tell("node does not answer", slot, err)
	default:
		e.node.tell("node is away", slot, err)
	}
}

// look finds out whether an endpoint carries out a call that writes, as takes do, and spends
// nothing.
func (e *Endpoint) look(ctx context.Context, slot int) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ctx, c := e.begin(ctx, slot, telemetry.Call{Operation: telemetry.Probe, Shard: shard.Tag(slot)}, nil)
	c.probes = true
	answer := make(chan error, 1)
	go func() {
		answer <- e.scripts.Probe(ctx, e.node.env.Prefix, shard.Tag(slot))
	}()
	judged, err := e.patiently(ctx, answer)
	c.unjudged = !judged && e.breaker.ready()
	c.Finish(ctx, err)
}

// How long a look waits for an answer.
const (
	lookLeast = 100 * time.Millisecond // of silence, or a call timeout: shorter ticks are late on any machine
	lookTicks = 20                     // of that
	lookMost  = 10                     // times as long, however late this process is
)

// patiently returns the answer to a call, or that there was none for a call timeout. In a process
// that is short of CPU a reply lies there and nobody reads it. So no time counts in which this
// goroutine was late itself: whoever reads replies has waited for a processor, too. A process that
// is late all the time does not judge.
func (e *Endpoint) patiently(ctx context.Context, answer <-chan error) (judged bool, err error) {
	whole := max(e.node.env.CallTimeout, lookLeast)
	tick := whole / lookTicks
	timer := time.NewTimer(tick)
	defer timer.Stop()
	began := e.node.env.Clock.Now()
	answers := e.answers.Load()
	for silent, now := 0, began; silent < lookTicks; {
		if now-began > int64(lookMost*whole) {
			return false, context.DeadlineExceeded
		}
		select {
		case err = <-answer:
			return true, err
		case <-timer.C:
		case <-ctx.Done():
			return false, ctx.Err()
		}
		chance.Yield() // all that can run go first
		before, heard := now, answers
		now, answers = e.node.env.Clock.Now(), e.answers.Load()
		switch {
		case answers != heard: // it is busy with other calls
			silent = 0
		case now-before < 2*int64(tick):
			silent++
		}
		timer.Reset(tick)
	}
	return true, context.DeadlineExceeded
}

// IsAnswer reports whether the error is what a server in good health says. A reply that makes no
// sense tells of the state that it came from, and not of the server.
func IsAnswer(err error) bool {
	if errors.Is(err, script.ErrForeignState) || errors.Is(err, script.ErrMalformedReply) {
		return true
	}
	text, ok := script.Said(err)
	for _, unfit := range []string{
		"LOADING", "CLUSTERDOWN", "MOVED", "READONLY", "MASTERDOWN", "BUSY", "NOREPLICAS", "OOM", "MISCONF",
	} {
		ok = ok && !strings.HasPrefix(text, unfit)
	}
	return ok && mistaken(err, true) == nil
}

// SilentFor is for how long nothing of the node has served a call of this process: 0 while any part
// of it may be asked. Nobody need have called meanwhile.
func (n *Node) SilentFor() time.Duration {
	now := n.env.Clock.Now()
	c := n.client.Load()
	if c == nil {
		return n.dialing.silentFor(now)
	}
	least := time.Duration(math.MaxInt64)
	for _, e := range c.ranges {
		least = min(least, e.breaker.silentFor(now))
	}
	return least
}
