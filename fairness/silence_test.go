package fairness

import (
	"fmt"
	"testing"

	"github.com/shardlimit/shardlimit/internal/extent"
)

// TestSimulatedLeavers: what those who leave had is with the others within a window and a half. All
// want half as much again as they get at first.
func TestSimulatedLeavers(t *testing.T) {
	for _, limit := range []int64{2000, 20000} {
		for _, shards := range []int{1, 8} {
			if limit == 20000 && !extent.Full {
				continue
			}
			t.Run(fmt.Sprint(limit, " ", shards), func(t *testing.T) {
				t.Parallel()
				s := newSim(t, limit, shards)
				for i := range 50 {
					s.add(1000, func(now int64) float64 {
						if i < 10 && now >= 7*simWindow/2 {
							return 0
						}
						return 1.5 * float64(limit) / 50
					})
				}
				s.run(5, 0)
				others := int64(0)
				for _, c := range s.clients[10:] {
					others += c.perWindow[4] // half a window to one and a half after they have left
				}
				t.Logf("the others have %.3f of the limit", float64(others)/float64(limit))
				if others*100 < limit*95 { // seen: .963 to .988
					t.Error("the part of those who left is wasted")
				}
			})
		}
	}
}

// TestWhoWaitsIsNotSilent: the claim of one that was refused does not fade before it is to come
// back, a quarter of a window later it does.
func TestWhoWaitsIsNotSilent(t *testing.T) {
	for _, next := range []int64{0, simWindow / 2, simWindow, 2 * simWindow} {
		l, term := &Ledger{}, Term{Now: epoch, Window: simWindow, Share: 100}
		caller := []Caller{{ID: fmt.Sprintf("%016x", 1), Slot: -1, Weight: 1000}}
		for range 2 { // from the second ask on it has an account
			l.Grant(nil, term, 0, caller, []Ask{{Size: 1, Count: 5}})
			l.Settle(nil, term, 0, next)
		}
		a, claim := &l.accounts[1], 4.0*milli
		a.claim = int64(claim)
		for after, want := range map[int64]float64{0: claim, simWindow / 4: claim, simWindow * 5 / 8: claim / 2,
			simWindow: 0} {
			if got := a.demand(Term{Now: epoch + next + after, Window: simWindow, Share: 100}); got != want {
				t.Errorf("told to come in %d us, silent for %d us since then: a demand of %v, want %v", next, after,
					got, want)
			}
		}
	}
}

// TestWhoComesEarlyIsNotOverstated: what is reported by one that comes before it was told to was
// not met since its last ask, not since then.
func TestWhoComesEarlyIsNotOverstated(t *testing.T) {
	l, term := &Ledger{}, Term{Now: epoch + simWindow*6/10, Window: simWindow, Share: 100}
	caller := []Caller{{ID: fmt.Sprintf("%016x", 1), Slot: -1, Weight: 1000}}
	for range 2 { // from the second ask on it has an account
		l.Grant(nil, term, 0, caller, []Ask{{Size: 1, Count: 5}})
		l.Settle(nil, term, 0, simWindow)
	}
	term.Now += simWindow / 2 // a tenth into the next window
	caller[0].Unmet = 1000
	l.Grant(nil, term, 0, caller, []Ask{{Size: 1, Count: 5}})
	if got := l.accounts[1].unmet; got != [2]int64{200, 800} {
		t.Errorf("unmet in this window and the one before: %v, want a fifth and four fifths", got)
	}
}

// TestRareNamesHaveAccounts: many whose permits are few come once in a window and a half. They are
// not taken for names invented with each call, of which all together have one part, as long as
// there is room for more.
func TestRareNamesHaveAccounts(t *testing.T) {
	for people, remembered := range map[int]bool{600: true, 1000: false} {
		l, term := &Ledger{}, Term{Now: epoch, Window: simWindow, Share: 10_000}
		known := 0
		for i := range 3 * people {
			term.Now += simWindow * 3 / 2 / int64(people)
			caller := Caller{ID: fmt.Sprintf("%016x", i%people), Slot: -1, Weight: 1000}
			if i >= 2*people && l.find(&caller) > 0 {
				known++
			}
			l.Grant(nil, term, 10_000, []Caller{caller}, []Ask{{Size: 1, Count: 1}})
			l.Settle(nil, term, 10_000, 0)
		}
		if remembered != (known == people) {
			t.Errorf("%d of %d are known when they come for the third time", known, people)
		}
	}
}
