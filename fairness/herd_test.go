package fairness

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/shardlimit/shardlimit/internal/extent"
)

// TestSimulatedOverload: a demand far beyond the limit, after a window that has filled the log
// evenly. Calls for a permit do not grow with it: the participants do not all come when a permit
// does. Even calls fall together as they happen to begin, so several beginnings are looked at.
func TestSimulatedOverload(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, shards := range []int{1, 4} {
		for _, times := range []float64{1, 10, 100} {
			const beginnings = 20
			var mean simResult
			for range beginnings {
				s := newSim(t, 200, shards)
				for range 4 {
					c := s.add(1000, func(now int64) float64 {
						if now < 1.1*simWindow {
							return 50
						}
						return times * 50
					})
					c.even, c.due = true, rng.Float64()
				}
				s.run(12, 2)
				r := s.result(10)
				if r.jain < 0.99 {
					t.Errorf("%v times the limit on %d shards: J %.4f", times, shards, r.jain)
				}
				mean.jain, mean.least, mean.use, mean.calls = mean.jain+r.jain/beginnings, mean.least+
					r.least/beginnings, mean.use+r.use/beginnings, mean.calls+r.calls/beginnings
			}
			t.Logf("overload %-10s J %.4f  min %.3f  use %.3f  calls %.2f", fmt.Sprint(times, " ", shards), mean.jain,
				mean.least, mean.use, mean.calls)
			most := 1.1 // calls for a permit; seen: 1.05, without appointments 3.1
			if times == 10 {
				most = 1.4 // seen: 1.33
			}
			if mean.calls > most || mean.jain < 0.998 || mean.least < 0.945 || mean.use < 0.97 {
				// seen: .9993, .951, .978
				t.Error("participants come in vain, or permits are wasted")
			}
		}
	}
}

// TestSimulatedWaiters: participants with ten callers each that wait.
func TestSimulatedWaiters(t *testing.T) {
	for _, limit := range []int64{2000, 20000} {
		if limit == 20000 && !extent.Full {
			continue
		}
		for _, people := range []int{20, 100} {
			for _, shards := range []int{1, 8} {
				const beginnings = 4 // a hundred who have 2.5 permits a window on each of eight shards have luck or not
				var mean simResult
				for beginning := range uint64(beginnings) {
					s := newSim(t, limit, shards)
					s.rng = rand.New(rand.NewPCG(beginning, 5))
					for range people {
						s.add(1000, nil).waiters = 10
					}
					s.run(12, 2)
					r := s.result(10)
					mean.jain, mean.least, mean.use, mean.calls = mean.jain+r.jain/beginnings, mean.least+
						r.least/beginnings, mean.use+r.use/beginnings, mean.calls+r.calls/beginnings
				}
				t.Logf("waiters %-10s J %.4f  min %.3f  use %.3f  calls %.2f",
					fmt.Sprint(limit, " ", people, " ", shards), mean.jain, mean.least, mean.use, mean.calls)
				if mean.calls > 1.7 || mean.jain < 0.995 || mean.least < 0.89 || mean.use < 0.98 {
					// seen: 1.50, .9993, .910, .994
					t.Error("waiters ask in vain, or permits are wasted")
				}
			}
		}
	}
}

// refuse asks in vain for somebody and returns when to come back.
func refuse(l *Ledger, t Term, who int) int64 {
	caller := []Caller{{ID: fmt.Sprintf("%016x", who), Slot: -1, Weight: 1000}}
	l.Grant(nil, t, 0, caller, []Ask{{Size: 1, Count: 1}})
	return l.Settle(nil, t, 0, 1000)[0].Retry
}

// TestAppointmentsAreSpaced: who is refused is told another time than the one before, by as much as
// its permit takes to come back.
func TestAppointmentsAreSpaced(t *testing.T) {
	for _, people := range []int{10, 20, 30, 40} {
		l, term := crowd(people, 1000)
		term.Now += 2_000 // appointments made so far are over, credit has come
		l.appointed = 0
		for i := range l.accounts {
			l.accounts[i].due, l.accounts[i].credit = 0, 20*micro
		}
		last := refuse(l, term, 0)
		for who := 1; who < people; who++ {
			next := refuse(l, term, who)
			if next < last || who > 4 && next != last+1000 {
				t.Errorf("number %d of %d is told %d us, the one before %d", who, people, next, last)
			}
			last = next
		}
	}
}

// TestNoAppointmentIsBeforePermitsCome: while nothing is free, the first appointment is for when
// the next permit comes back, and the others are after it.
func TestNoAppointmentIsBeforePermitsCome(t *testing.T) {
	l, term := crowd(40, 1000)
	l.appointed = 0
	for i := range l.accounts {
		l.accounts[i].due, l.accounts[i].credit = 0, 20*micro
	}
	for who := range 5 {
		caller := []Caller{{ID: fmt.Sprintf("%016x", who), Slot: -1, Weight: 1000}}
		l.Grant(nil, term, 0, caller, []Ask{{Size: 1, Count: 1}})
		slot := l.Settle(nil, term, 0, 100_000)[0].Slot
		if got, want := l.accounts[slot].due-term.Now, int64(100_000+1000*who); got != want {
			t.Errorf("number %d has an appointment in %d us, want %d", who, got, want)
		}
	}
	l.appointed = 0
	l.accounts[1].due = 0
	if ahead := l.appoint(term, 1, 1, 100_000); ahead != 1000 {
		t.Errorf("with a free permit, the next appointment is in %d us", ahead)
	}
	if ahead := l.appoint(term, 1, 0, 1_000*term.Window); ahead > term.Window {
		t.Errorf("an appointment in %d us", ahead)
	}
}

// TestOneAppointmentEach: who asks again and again before its time does not put off the others.
func TestOneAppointmentEach(t *testing.T) {
	l, term := crowd(20, 1000)
	l.appointed = term.Now + 20_000
	for i := range l.accounts {
		l.accounts[i].due = 0
	}
	first := refuse(l, term, 1)
	before := l.appointed
	for range 50 {
		if again := refuse(l, term, 1); again < first-50 || again > first {
			t.Fatalf("told %d us, then %d", first, again)
		}
		term.Now++
	}
	if l.appointed != before {
		t.Errorf("one participant has all appointments until %d us later", l.appointed-before)
	}
}

// TestAppointmentsAreBounded: they reach little more than a quarter of a window ahead, and what
// lies further is of another clock.
func TestAppointmentsAreBounded(t *testing.T) {
	l, term := crowd(1000, 1000)
	for who := range 1000 {
		if retry := refuse(l, term, who); retry > term.Window/4+3*1000 {
			t.Fatalf("number %d is told %d us", who, retry)
		}
	}
	term.Now -= 100 * term.Window
	if retry := refuse(l, term, 1); retry > term.Window/4+3*1000 {
		t.Errorf("told %d us after the clock was set back", retry)
	}
}

// TestWhoWantsMoreHasAnAppointment: who got all that it asked for and has no credit left comes at
// its appointment, if it wants more than its part.
func TestWhoWantsMoreHasAnAppointment(t *testing.T) {
	for claim, appointed := range map[int64]bool{1: false, most: true} {
		l, term := crowd(20, 1000)
		a := &l.accounts[1]
		l.appointed, a.due, a.credit, a.claim = term.Now+50_000, 0, 0, claim
		l.open = []entry{{own: 1, from: 1, e: l.entitlement(term, a)}}
		retry := l.Settle(nil, term, 2, 1000)[0].Retry
		if appointed != (retry >= 50_000) || appointed != (l.appointed > term.Now+50_000) {
			t.Errorf("with a claim of %d it is told %d us", claim, retry)
		}
	}
}
