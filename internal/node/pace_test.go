package node

import (
	"testing"
	"time"
)

// pacing is endpoints whose calls take so long, on a clock of the test's.
type pacing struct {
	best fastest
	now  int64
}

func (p *pacing) call(e *pace, took time.Duration, times int) {
	for range times {
		p.now += int64(took)
		e.took(p.now, took, &p.best)
	}
}

func TestAnEndpointThatLagsIsLeftAloneButForSamples(t *testing.T) {
	var p pacing
	var near, far pace
	p.call(&near, time.Millisecond, 10)
	p.call(&far, 20*time.Millisecond, paceCalls-1)
	if got := far.lag(p.now); got != InStep {
		t.Fatalf("%v before so many calls were late", got)
	}
	p.call(&far, 20*time.Millisecond, 1)
	if got := far.lag(p.now); got != Lags {
		t.Fatalf("%v, want it left alone", got)
	}
	if got := near.lag(p.now); got != InStep {
		t.Errorf("the fast one: %v", got)
	}
	samples, began := 0, p.now
	for p.now < began+int64(time.Minute) {
		p.now += int64(time.Millisecond)
		p.call(&near, time.Millisecond, 1)
		if far.lag(p.now) == Sample {
			samples++
			if got := far.lag(p.now); got != Lags {
				t.Fatalf("%v beside a sample", got)
			}
			p.call(&far, 20*time.Millisecond, 1)
		}
	}
	// after .1, .2, .4, .8, 1.6 and 3.2 s, then every 5
	if samples < 15 || samples > 17 {
		t.Errorf("%d samples in a minute", samples)
	}
	p.call(&near, time.Millisecond, 1)
	p.call(&far, time.Millisecond, 1)
	if got := far.lag(p.now); got != InStep {
		t.Errorf("%v after it answered as fast as the other", got)
	}
}

// Where all nodes become slower none is left alone for longer than until its next sample.
func TestWhatIsSlowEverywhereLagsNowhere(t *testing.T) {
	var p pacing
	var a, b pace
	p.call(&a, time.Millisecond, 10)
	p.call(&b, time.Millisecond, 10)
	p.now += int64(fastestLasts) + 1
	p.call(&a, 50*time.Millisecond, 1)
	p.call(&b, 50*time.Millisecond, 30)
	p.call(&a, 50*time.Millisecond, 30)
	p.call(&b, 50*time.Millisecond, 1) // a sample
	for i, e := range []*pace{&a, &b} {
		if got := e.lag(p.now); got != InStep {
			t.Errorf("endpoint %d: %v", i, got)
		}
	}
}

// A process that had no processor for a moment hears late of all that is under way.
func TestAMomentIsNoLag(t *testing.T) {
	var p pacing
	var a, b pace
	p.call(&a, time.Millisecond, 10)
	for range 2 * paceCalls {
		b.took(p.now, 50*time.Millisecond, &p.best)
	}
	if got := b.lag(p.now); got != InStep {
		t.Errorf("%v", got)
	}
}

func TestASmallDifferenceIsNoLag(t *testing.T) {
	var p pacing
	var a, b pace
	for range 100 {
		p.call(&a, 100*time.Microsecond, 1)
		p.call(&b, 2*time.Millisecond, 1)
	}
	if got := b.lag(p.now); got != InStep {
		t.Errorf("%v", got)
	}
}

// A sample that is not heard of holds nobody up: there is another one later.
func TestASampleThatIsLostIsFollowedByAnother(t *testing.T) {
	var p pacing
	var near, far pace
	p.call(&near, time.Millisecond, 1)
	p.call(&far, time.Second/10, paceCalls)
	p.now += int64(lagMaxPause)
	if got := far.lag(p.now); got != Sample {
		t.Fatal(got)
	}
	if got := far.lag(p.now + int64(lagMaxPause)); got != Sample {
		t.Error(got)
	}
}
