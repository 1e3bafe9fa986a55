package record

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/node"
)

// slowly is a belief in something that takes ten seconds to read while it is slow, and else may
// fail.
type slowly struct {
	Belief
	slow  atomic.Bool
	fails atomic.Bool
	asks  atomic.Int64
}

var errFails = errors.New("it fails")

// slowlyRead has a test take place in simulated time.
func slowlyRead(t *testing.T, test func(t *testing.T, b *slowly)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newSlowly(t)) })
}

func newSlowly(t *testing.T) *slowly {
	b := &slowly{}
	nodes := processOf(t, "p", []node.Spec{{Name: "a", Weight: 1}}).nodes
	b.Belief = Belief{nodes: nodes, every: time.Minute, number: func() int64 { return 7 }}
	b.ask = func(ctx context.Context, _ bool) error {
		began := nodes.Clock.Elapsed()
		if b.asks.Add(1); b.slow.Load() && !clock.Sleep(ctx, 10*time.Second) {
			return clock.Ended(ctx)
		}
		if b.fails.Load() {
			return errFails
		}
		b.Learn(7, began)
		return nil
	}
	b.soon = func(ctx context.Context) error { return b.Ask(ctx, true) }
	b.init()
	return b
}

func (b *slowly) until() clock.Elapsed { return b.Until(7, b.nodes.Clock.Elapsed()) }

// What was read is relied on for five seconds from when the read began, and for nothing else.
func TestABeliefEnds(t *testing.T) {
	slowlyRead(t, func(t *testing.T, b *slowly) {
		if b.until() != 0 || b.Expired(b.nodes.Clock.Elapsed()) {
			t.Error("nothing was read")
		}
		confirms := func(since clock.Elapsed, asks int64) {
			t.Helper()
			if err := b.ConfirmSince(t.Context(), since); err != nil || b.asks.Load() != asks {
				t.Errorf("%v, asked %d times, want %d", err, b.asks.Load(), asks)
			}
		}
		began := b.nodes.Clock.Elapsed()
		confirms(0, 1)
		if b.until() != began+clock.Elapsed(node.Relied) || b.Until(8, began) != 0 {
			t.Errorf("until %d", b.until())
		}
		time.Sleep(node.Relied - 1)
		if b.until() == 0 || b.Expired(b.nodes.Clock.Elapsed()) {
			t.Error("over too early")
		}
		confirms(0, 1)
		time.Sleep(time.Nanosecond)
		if b.until() != 0 || !b.Expired(b.nodes.Clock.Elapsed()) {
			t.Error("relied on for too long")
		}
		confirms(0, 2)
		confirms(b.nodes.Clock.Elapsed(), 2)
		confirms(b.nodes.Clock.Elapsed()+1, 3)
	})
}

// What does not answer is waited for once, by the first of several calls, also where it was read
// before: to calls that go on without, that has not expired until a while after the last try. It is
// read on in the background, and is relied on as soon as it answers.
func TestWhatDoesNotAnswerIsWaitedForOnce(t *testing.T) {
	slowlyRead(t, func(t *testing.T, b *slowly) {
		b.Learn(7, b.nodes.Clock.Elapsed())
		time.Sleep(2 * node.Relied)
		b.slow.Store(true)
		for call, want := range []time.Duration{b.nodes.CallTimeout / 2, 0, 0} {
			began := time.Now()
			err := b.ConfirmWithin(t.Context())
			if took := time.Since(began); err == nil || errors.Is(err, ErrBusy) || took != want || b.Failure() == nil {
				t.Errorf("call %d: %v after %s, want %s", call, err, took, want)
			}
		}
		if now := b.nodes.Clock.Elapsed(); b.Expired(now) || !b.Expired(now+clock.Elapsed(failedFor)) {
			t.Error("every call would try it again, or none ever")
		}
		b.slow.Store(false)
		time.Sleep(11 * time.Second)
		if err := b.ConfirmWithin(t.Context()); err != nil || b.Failure() != nil {
			t.Error(err)
		}
	})
}

// What fails is asked for again after a pause by calls, and in the background.
func TestWhatFailsIsAskedForInTheBackground(t *testing.T) {
	slowlyRead(t, func(t *testing.T, b *slowly) {
		b.fails.Store(true)
		for range 3 {
			if err := b.ConfirmSince(t.Context(), 0); !errors.Is(err, errFails) {
				t.Error(err)
			}
		}
		synctest.Wait()
		if b.asks.Load() > 2 {
			t.Errorf("asked %d times", b.asks.Load())
		}
		b.fails.Store(false)
		time.Sleep(100 * time.Millisecond)
		if b.until() == 0 {
			t.Error("nobody has asked again")
		}
	})
}

// A caller who has less time, and a queue of this process, tell nothing of what is asked.
func TestWhoLeavesEarlyTellsNothing(t *testing.T) {
	slowlyRead(t, func(t *testing.T, b *slowly) {
		b.slow.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), b.nodes.CallTimeout/4)
		defer cancel()
		if err := b.ConfirmWithin(ctx); err == nil || b.Failure() != nil {
			t.Errorf("after a quarter of a call: %v, %v", err, b.Failure())
		}
		b.slow.Store(false)
		must(t, b.Begin(t.Context()))
		defer b.End()
		if err := b.ConfirmWithin(t.Context()); !errors.Is(err, ErrBusy) || b.Failure() != nil {
			t.Errorf("in the queue: %v, %v", err, b.Failure())
		}
	})
}

// Who waits for another exchange of this process goes on when that has learned something, though it
// is not over.
func TestWhoWaitsGoesOnWhenSomethingIsLearned(t *testing.T) {
	slowlyRead(t, func(t *testing.T, b *slowly) {
		must(t, b.Begin(t.Context()))
		defer b.End()
		time.AfterFunc(time.Millisecond, func() { b.Learn(7, b.nodes.Clock.Elapsed()) })
		began := time.Now()
		if err := b.ConfirmSince(t.Context(), 0); err != nil || time.Since(began) != time.Millisecond || b.asks.Load() > 0 {
			t.Errorf("%v after %v, asked %d times", err, time.Since(began), b.asks.Load())
		}
	})
}

// A read in the background that waits for a place that does not answer keeps nobody from reading
// what a majority has.
func TestALatePlaceHoldsNoCallUp(t *testing.T) {
	inTown(t, "abc", func(t *testing.T, at town, b *Book) {
		var w *Watch
		w = limit(b).Watch(Watched{Every: time.Minute, Begins: func() error { return nil },
			Number: func() int64 { return 7 },
			Heard: func(_ context.Context, _ Reading, began clock.Elapsed) error {
				w.Learn(7, began)
				return nil
			}})
		at[places(t, b).Names[0]].stalled.Store(true)
		var whole error
		ended := make(chan struct{})
		go func() { whole = w.Ask(t.Context(), true); close(ended) }()
		time.Sleep(10 * time.Millisecond)
		if w.Until(7, b.nodes.Clock.Elapsed()) == 0 {
			t.Error("the majority was not heard")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if err := w.ConfirmSince(ctx, b.nodes.Clock.Elapsed()); err != nil {
			t.Error(err)
		}
		select {
		case <-ended:
			t.Error("the read in the background waited for nobody")
		default:
		}
		if <-ended; whole != nil || len(w.token) != 0 {
			t.Errorf("%v, %d tokens", whole, len(w.token))
		}
	})
}

// A process that read in vain for longer than it reads in the background anyway reads once when
// that ends. The answer is used at once, and asks for no other read, which would never end.
func TestASuccessIsNotReadAgain(t *testing.T) {
	slowlyRead(t, func(t *testing.T, b *slowly) {
		b.soon = func(ctx context.Context) error {
			err := b.Ask(ctx, true)
			time.Sleep(time.Millisecond)
			b.Refresh() // by who goes on with what was read
			return err
		}
		b.fails.Store(true)
		b.Soon()
		time.Sleep(3 * b.every)
		b.fails.Store(false)
		before := b.asks.Load()
		time.Sleep(10 * time.Second)
		if n := b.asks.Load() - before; n < 1 || n > 2 {
			t.Errorf("read %d times in ten seconds", n)
		}
	})
}
