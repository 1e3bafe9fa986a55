package node

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const ms = int64(time.Millisecond)

func TestBreakerLetsOneProbeThroughWhenItsPauseIsOver(t *testing.T) {
	var b breaker
	if b.claimProbe(1000 * ms) {
		t.Fatal("a closed breaker wants to be probed")
	}
	b.broke(0)
	// The pause is 50 ms and up to a quarter more.
	var claimed atomic.Int64
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if b.claimProbe(63 * ms) {
				claimed.Add(1)
			}
		})
	}
	wg.Wait()
	if claimed.Load() != 1 {
		t.Fatalf("%d probes at once", claimed.Load())
	}
	if b.ready() {
		t.Error("calls were let through while it was probed")
	}
}

// Pauses double up to a second. A call that was under way when it opened lengthens none.
func TestBreakerPausesDoubleUpToASecond(t *testing.T) {
	var b breaker
	now := int64(0)
	b.broke(now)
	for want := 50 * ms; want < 4000*ms; want *= 2 {
		pause := min(want, 1000*ms)
		b.broke(now + pause - 1) // the call that was under way
		if b.claimProbe(now + pause - 1) {
			t.Fatalf("probed before %d ms", pause/ms)
		}
		now += pause + pause/4
		if !b.claimProbe(now) {
			t.Fatalf("not probed %d ms after a pause of %d ms", (pause+pause/4)/ms, pause/ms)
		}
		b.broke(now)
	}
}

// A node that answers probes and fails every call (a read-only replica answers
// reads) must not be tried ever again at the pace of the shortest pause. It counts as silent.
func TestBreakerKeepsItsPauseUntilACallHasSucceeded(t *testing.T) {
	var b breaker
	now := ms
	b.broke(now)
	for range 10 {
		now += 1250 * ms
		if !b.claimProbe(now) {
			t.Fatal("not probed")
		}
		b.succeeded(now) // the probe
		if !b.ready() {
			t.Fatal("the probe did not close it")
		}
		b.broke(now) // the call after it
	}
	if got := b.silentFor(now); got < 10*time.Second {
		t.Errorf("silent for %v, although no call was served", got)
	}
	if b.claimProbe(now + 999*ms) {
		t.Error("probes that succeed shorten the pause although no call does")
	}
	now += 1250 * ms
	b.claimProbe(now)
	b.succeeded(0) // the probe
	b.succeeded(0) // a call
	b.broke(now)
	if !b.claimProbe(now + 63*ms) {
		t.Error("a call that succeeded did not reset the pause")
	}
}

// A node that nobody calls while a probe has found that it answers is not silent meanwhile.
func TestATimeWithoutCallsIsNoSilence(t *testing.T) {
	var b breaker
	b.broke(ms)
	if !b.claimProbe(200 * ms) {
		t.Fatal("no probe")
	}
	b.succeeded(200 * ms)
	later := 200*ms + int64(3*time.Minute)
	b.broke(later)
	if got := b.silentFor(later + ms); got > time.Second {
		t.Errorf("silent for %v", got)
	}
}
