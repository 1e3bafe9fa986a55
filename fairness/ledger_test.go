package fairness

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
)

// crowd fills a ledger with participants who want more than there is.
func crowd(people int, share int64) (*Ledger, Term) {
	l, t := &Ledger{}, Term{Now: 1_700_000_000_000_000, Window: 1_000_000, Share: share}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 40 * people {
		t.Now += 2_000_000 / int64(40*people)
		who := rng.IntN(people)
		caller := Caller{ID: fmt.Sprintf("%016x", who), Slot: -1, Weight: 1000, Unmet: 5000}
		l.Grant(nil, t, share, []Caller{caller}, []Ask{{Size: 1, Count: share / 10}})
		l.Settle(nil, t, share, 0)
	}
	return l, t
}

func TestTextRoundTrip(t *testing.T) {
	for _, people := range []int{1, 3, 40} {
		l, term := crowd(people, 1000)
		again, err := ParseLedger(l.Text() + "what is left of an account that was removed")
		if err != nil || again.Text() != l.Text() || !reflect.DeepEqual(again.Standings(term), l.Standings(term)) {
			t.Errorf("%d people: %v\n%s\n%s", people, err, l.Text(), again.Text())
		}
	}
	if l, err := ParseLedger(""); err != nil || l.Text() != "" {
		t.Error(l, err)
	}
}

func FuzzParseLedger(f *testing.F) {
	l, _ := crowd(3, 1000)
	f.Add(l.Text())
	f.Fuzz(func(t *testing.T, text string) {
		l, err := ParseLedger(text)
		if err != nil {
			if !errors.Is(err, ErrText) {
				t.Fatal(err)
			}
			return
		}
		if again, err := ParseLedger(l.Text()); err != nil || again.Text() != l.Text() {
			t.Fatalf("%q: %v", text, err)
		}
	})
}

// TestLargeAsk: who asks for more than it can ever save up gets it once its account is full, and
// pays it back before it gets anything else.
func TestLargeAsk(t *testing.T) {
	l, term := crowd(4, 1000)
	large := []Ask{{Size: 500, Count: 1}}
	caller := []Caller{{ID: fmt.Sprintf("%016x", 1), Slot: -1, Weight: 1000}}
	tries := 0
	for ; ; tries++ {
		grants, granted, _ := l.Grant(nil, term, 600, caller, large)
		hint := l.Settle(nil, term, 600-granted, 0)[0]
		if grants[0] == 1 {
			break
		}
		if hint.Retry <= 0 || tries > 20 {
			t.Fatalf("not granted after %d tries, hint %d", tries, hint.Retry)
		}
		term.Now += hint.Retry
	}
	caller[0].Unmet = 1_000_000 // it still wants more, and so do the others
	for i := range 4 {
		other := []Caller{{ID: fmt.Sprintf("%016x", i), Slot: -1, Weight: 1000, Unmet: 1_000_000}}
		l.Grant(nil, term, 0, other, nil)
		l.Settle(nil, term, 0, 0)
	}
	if _, granted, _ := l.Grant(nil, term, 600, caller, []Ask{{Size: 1, Count: 1}}); granted != 0 {
		t.Error("a debtor is served")
	}
}

// TestPassOverMany: the level of a thousand participants, found a slice at a time, is that of the
// definition.
func TestPassOverMany(t *testing.T) {
	l, term := crowd(1000, 100_000)
	var claims []Claim
	for i := range l.accounts {
		claims = append(claims, Claim{Demand: l.accounts[i].claim, Weight: l.accounts[i].weight})
	}
	num, den := Level(term.Share*milli, claims)
	if den == 0 || l.level.heavy == 0 {
		t.Fatalf("no level: %d/%d, ledger %+v", num, den, l.level)
	}
	exact, found := float64(num)/float64(den), float64(l.level.spare)/float64(l.level.heavy)
	if found < exact*0.9 || found > exact*1.1 {
		t.Errorf("level %v, exact %v", found, exact)
	}
}

// TestUnmetDemandIsSpread: what was not met counts in the windows in which it was, and of a long
// time only the last window.
func TestUnmetDemandIsSpread(t *testing.T) {
	term := Term{Now: epoch + simWindow/10, Window: simWindow, Share: 100}
	for span, want := range map[int64][2]int64{
		-simWindow:         {1000, 0}, // the clock was set back
		0:                  {1000, 0},
		simWindow / 20:     {1000, 0},
		simWindow * 4 / 10: {250, 750},
		simWindow:          {100, 900},
		simWindow * 2:      {50, 450},
	} {
		if got := term.spread(1000, span); got != want {
			t.Errorf("%v of the last %d us, want %v", got, span, want)
		}
	}
}

// TestAFreePermitIsKeptForWhoWantsLess: a free permit is kept for those who want less than their
// part, as long as there are any.
func TestAFreePermitIsKeptForWhoWantsLess(t *testing.T) {
	l, term := crowd(4, 100)
	caller := []Caller{{ID: fmt.Sprintf("%016x", 1), Slot: -1, Weight: 1000}}
	for _, light := range []int64{1, 0} {
		l.level = level{spare: term.Share*milli - light, heavy: 4000}
		l.Grant(nil, term, 0, caller, nil)
		l.accounts[l.open[0].own].credit = 1.5 * micro // of 7.5
		_, granted, _ := l.Grant(nil, term, 1, caller, []Ask{{Size: 1, Count: 1}})
		if granted != 1-light {
			t.Errorf("with a demand of %d from those who want little, %d of the last permit are granted", light,
				granted)
		}
	}
}
