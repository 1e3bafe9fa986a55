package register

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A record that does not answer is waited for once, by the first of several calls. Then it is read
// on in the background, and it is relied on as soon as it answers.
func TestARecordThatDoesNotAnswerIsWaitedForOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, slow := slowly(t)
		p.register.Doubt()
		slow.Store(true)
		most := p.env.Nodes.CallTimeout / 2
		for call, want := range []time.Duration{most, 0, 0} {
			began := time.Now()
			err := p.register.ConfirmWithin(t.Context(), most)
			if took := time.Since(began); err == nil || errors.Is(err, errBusy) || took != want {
				t.Errorf("call %d: %v after %s, want %s", call, err, took, want)
			}
		}
		slow.Store(false)
		time.Sleep(time.Minute) // until the server has done what it was told
		if err := p.register.ConfirmWithin(t.Context(), most); err != nil || !p.register.current(0) {
			t.Error(err)
		}
	})
}

// A caller who has less time, and a queue of this process, tell nothing of the record.
func TestWhoLeavesEarlyTellsNothingOfTheRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, slow := slowly(t)
		p.register.Doubt()
		slow.Store(true)
		most := p.env.Nodes.CallTimeout / 2
		ctx, cancel := context.WithTimeout(t.Context(), most/2)
		defer cancel()
		if err := p.register.ConfirmWithin(ctx, most); err == nil || p.register.failedAt.Load() != 0 {
			t.Errorf("after half of the time: %v, failed at %d", err, p.register.failedAt.Load())
		}
		slow.Store(false)
		time.Sleep(time.Minute)
		if err := p.register.begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer p.register.end()
		if err := p.register.ConfirmWithin(t.Context(), most); !errors.Is(err, errBusy) ||
			p.register.failedAt.Load() != 0 {
			t.Errorf("in the queue: %v, failed at %d", err, p.register.failedAt.Load())
		}
	})
}

// While the record cannot be read, calls to shards with state do not wait for it, one after the
// other: they would go on without it. A while after the last try, and after a suspension, they do.
func TestARecordOutOfReachIsNotAskedForByEveryCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, slow := slowly(t)
		p.register.confirmed(1, p.register.elapsed())
		time.Sleep(2 * confirmFor)
		if !p.register.Expired(p.register.elapsed()) {
			t.Error("it was read long ago")
		}
		slow.Store(true)
		if err := p.register.ConfirmWithin(t.Context(), p.env.Nodes.CallTimeout/2); err == nil {
			t.Fatal("a record that does not answer was read")
		}
		if p.register.Expired(p.register.elapsed()) {
			t.Error("every call would try it again")
		}
		if !p.register.Expired(p.register.elapsed() + int64(failedFor)) {
			t.Error("nobody tries it again")
		}
		slow.Store(false)
		time.Sleep(time.Minute) // until the server has done what it was told
	})
}
