package fairness

import (
	"fmt"
	"testing"

	"github.com/shardlimit/shardlimit/internal/extent"
)

// TestSimulatedWorkers: two participants with weights 1 and 3 whose callers wait, again and again.
// How many of them wait says nothing of what they want: they get their parts all the same, whatever
// they had taken before they were seen to contend, and wherever in the ledger's windows that was.
func TestSimulatedWorkers(t *testing.T) {
	for _, shards := range []int{1, 4} {
		for _, waiters := range []int64{20, 200} {
			for phase := range int64(4) {
				s := newSim(t, 2000, shards)
				for _, weight := range []int64{1000, 3000} {
					c := s.add(weight, nil)
					c.waiters, c.nap = waiters, epoch+phase*simWindow/4
				}
				s.run(14, 8)
				r := s.result(6)
				t.Logf("%d callers on %d shards, phase %d: from %.3f to %.3f of a part, use %.3f, calls %.2f; %v and "+
					"%v", waiters, shards, phase,
					r.least, r.most, r.use, r.calls, s.clients[0].perWindow, s.clients[1].perWindow)
				if r.least < 0.96 || r.most > 1.02 || r.use < 0.975 { // seen: .975, 1.007, .980
					t.Error("not served by weight, or permits are wasted")
				}
			}
		}
	}
}

// TestSimulatedWork: half of the participants work between one permit and the next, so that they
// want less than their part or little more; the others want all they can get. With a caller alone
// part of its time goes by for want of permits, which cannot be made up for.
func TestSimulatedWork(t *testing.T) {
	for _, people := range []int{4, 40} {
		if people == 40 && !extent.Full {
			continue
		}
		for _, wanted := range []float64{0.3, 0.6, 0.95, 1.2} {
			for _, waiters := range []int64{1, 5, 20} {
				s := newSim(t, 2000, 1)
				for i := range people {
					c := s.add(1000, nil)
					if c.waiters = waiters; i%2 == 0 {
						c.think = int64(float64(waiters) * simWindow * float64(people) / (wanted * 2000))
					}
				}
				s.run(12, 2)
				r := s.result(10)
				t.Logf("%-30s from %.3f to %.3f of a part, use %.3f, calls %.2f",
					fmt.Sprint(people, " with ", waiters, " callers want ", wanted), r.least, r.most, r.use, r.calls)
				if r.use < 0.97 || people == 4 && r.least < 0.94 { // seen: .978, .964
					t.Error("who works gets less than its part, or permits are wasted")
				}
			}
		}
	}
}

// TestWaitedIsAnAverage: half a window of waiting is all that counts, and as much without makes it
// forgotten.
func TestWaitedIsAnAverage(t *testing.T) {
	var a account
	term := Term{Now: epoch, Window: simWindow, Share: 100}
	for i, step := range []struct{ waiting, span, want int64 }{
		{7, simWindow / 4, giga / 2}, {7, simWindow / 4, giga * 3 / 4}, {0, simWindow / 8, giga * 9 / 16},
		{1, simWindow / 2, giga},
		{1, 10 * simWindow, giga}, {0, 1, giga - giga/simWindow*2}, {0, simWindow, 0}, {1, 0, giga / simWindow * 2},
	} {
		if a.wait(term, step.waiting, step.span); a.waited != step.want {
			t.Errorf("step %d: %d, want %d", i, a.waited, step.want)
		}
	}
}

// TestWhoWaitsWantsMore: the claim of one that waited for a quarter of its time is a third higher
// than its use; who waited all the time claims as much as its use backs.
func TestWhoWaitsWantsMore(t *testing.T) {
	term := Term{Now: epoch / simWindow * simWindow, Window: simWindow, Share: 100_000}
	for waited, want := range map[int64]int64{0: 300_000, giga / 4: 400_000, giga/2 - 1: 599_999, giga / 2: 604_000,
		giga: 604_000} {
		a := account{weight: milli, used: [2]int64{0, 300}, waited: waited}
		if a.state(term, 0, 2*term.Window, milli, 0); a.claim != want {
			t.Errorf("waited %d: a claim of %d, want %d", waited, a.claim, want)
		}
	}
	term.Now += simWindow - 1 // what it had at once it has again soon: it wants that, if it was refused meanwhile
	for denied, want := range map[int64]int64{term.Now - simWindow/4: 300_000, term.Now + simWindow: 300_000,
		term.Now - simWindow: 0, term.Now + 3*simWindow: 0} {
		a := account{weight: milli, used: [2]int64{0, 300}, denied: denied}
		if a.state(term, 0, 2*term.Window, milli, 0); a.claim != want {
			t.Errorf("told to be back in %d us: a claim of %d, want %d", denied-term.Now, a.claim, want)
		}
	}
	for name, c := range map[string]struct {
		used, booking int64
		want          int64 // parts of 100,000/3
		waited        int64
	}{
		"waits, and had something":        {used: 1, want: 1, waited: giga},
		"has waited in vain for long":     {want: 1, waited: giga},
		"waits not for long yet":          {want: 0},
		"wants to book, and waits for it": {booking: 100_000, want: 4},
	} {
		a := account{weight: milli, used: [2]int64{c.used, 0}, waited: c.waited, denied: term.Now - simWindow/4}
		half := int64(100_000 * milli / 6)
		if a.state(term, max(1, c.booking), 2*term.Window, 3*milli, c.booking); a.claim/(half-1) != c.want ||
			c.want > 0 && a.claim%(half-1) > c.want*2 {
			t.Errorf("who %s claims %d, want %d halves of an equal part of %d", name, a.claim, c.want, 2*half)
		}
	}
}

// TestWhoIsShutOutStillWants: the claim of one that was refused, and whose callers wait, falls by
// about half in each window in which others had booked everything.
func TestWhoIsShutOutStillWants(t *testing.T) {
	term := Term{Now: epoch / simWindow * simWindow, Window: simWindow, Share: 100_000}
	for name, c := range map[string]struct{ waited, denied, span, want int64 }{
		"half a window":    {giga, 0, simWindow / 2, 750_000},
		"a window":         {giga / 2, -simWindow / 2, simWindow, 500_000},
		"two windows":      {giga, 0, 2 * simWindow, 4_000},
		"far away":         {giga, 0, 9 * simWindow, 4_000},
		"seldom waited":    {giga/2 - 1, 0, simWindow / 2, 0},
		"not refused":      {giga, -simWindow, simWindow / 2, 4_000},
		"the clock stands": {giga, 0, -5, 999_999},
	} {
		a := account{weight: milli, claim: 1_000_000, waited: c.waited, denied: term.Now + c.denied}
		if a.state(term, 0, c.span, 1000*giga, 0); a.claim != c.want {
			t.Errorf("%s: a claim of %d, want %d", name, a.claim, c.want)
		}
	}
}
