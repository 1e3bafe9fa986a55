package ledger

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/shardlimit/shardlimit/fairness"
	"github.com/shardlimit/shardlimit/internal/maxmin"
)

// crowd fills a ledger with participants who want more than there is.
func crowd(people int, share int64) (*Ledger, Term) {
	l, t := &Ledger{}, Term{Now: epoch, Window: simWindow, Share: share}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 40 * people {
		t.Now += 2 * simWindow / int64(40*people)
		caller := fairness.Caller{ID: fmt.Sprintf("%016x", rng.IntN(people)), Weight: 1000, Unmet: 5000}
		l.Grant(nil, nil, t, share, 0, []fairness.Caller{caller}, []fairness.Ask{{Size: 1, Count: share / 10}})
	}
	return l, t
}

// TestStandings: what is read of a ledger is what its participants are paced by, and nothing of
// those who were silent for a window.
func TestStandings(t *testing.T) {
	for _, people := range []int{1, 3, 40, 1100} {
		l, term := crowd(people, 1000)
		for _, later := range []int64{0, 1, 2, 5} { // half windows
			term.Now += later * simWindow / 2
			all, err := fairness.Standings(l.Fields(), term.Now, term.Window)
			if err != nil || len(all) != len(l.accounts) || all[0].ID != "" {
				t.Fatalf("%d people: %d standings, %d accounts", people, len(all), len(l.accounts))
			}
			for _, s := range all[1:] {
				a := l.accounts[s.ID]
				if s.Weight != a.weight || later == 5 && (s.Demand != 0 || s.Entitlement != 0) ||
					later == 0 && (s.Demand != a.claim || s.Entitlement != float64(a.rate)/milli ||
						s.Used == 0 && people < 1000) {
					t.Errorf("%d people, %d later: %+v, want %+v", people, later, s, a)
				}
			}
		}
	}
	if all, err := fairness.Standings(nil, 0, 0); err != nil || all != nil || (&Ledger{}).Fields() != nil {
		t.Error(all, err)
	}
}

func FuzzStandings(f *testing.F) {
	l, term := crowd(3, 1000)
	fields := l.Fields()
	f.Add(fields[header], fields[shared], fmt.Sprintf("%016x", 1), fields[fmt.Sprintf("%016x", 1)])
	f.Fuzz(func(t *testing.T, head, all, id, account string) {
		fields := map[string]string{header: head, shared: all, id: account}
		standings, err := fairness.Standings(fields, term.Now, term.Window)
		if err == nil && len(standings) != len(fields)-1 || err != nil && !errors.Is(err, fairness.ErrText) {
			t.Fatalf("%+v, %v", standings, err)
		}
	})
}

// TestLargeAsk: who asks for more than it can ever save up gets it once its account is full, and
// pays it back before it gets anything else.
func TestLargeAsk(t *testing.T) {
	l, term := crowd(4, 1000)
	large := []fairness.Ask{{Size: 500, Count: 1}}
	caller := []fairness.Caller{{ID: fmt.Sprintf("%016x", 1), Weight: 1000}}
	for tries := 0; ; tries++ {
		grants, retry, _, _ := l.Grant(nil, nil, term, 600, 0, caller, large)
		if grants[0] == 1 {
			break
		}
		if retry[0] <= 0 || tries > 20 {
			t.Fatalf("not granted after %d tries, told to come in %d us", tries, retry[0])
		}
		term.Now += retry[0]
	}
	for i := range 4 { // it still wants more, and so do the others
		other := []fairness.Caller{{ID: fmt.Sprintf("%016x", i), Weight: 1000, Unmet: 1_000_000}}
		l.Grant(nil, nil, term, 0, 0, other, nil)
	}
	if _, _, granted, _ := l.Grant(nil, nil, term, 600, 0, caller, []fairness.Ask{{Size: 1, Count: 1}}); granted != 0 {
		t.Error("a debtor is served")
	}
}

// TestTheLevelIsThatOfTheDefinition: found one participant at a time, the rate of each of a
// thousand is that of the definition.
func TestTheLevelIsThatOfTheDefinition(t *testing.T) {
	l, term := crowd(1000, 100_000)
	var claims []maxmin.Claim
	for _, a := range l.accounts {
		claims = append(claims, maxmin.Claim{Demand: a.claim, Weight: a.weight})
	}
	exact := float64(slices.Max(maxmin.Shares(nil, term.Share*milli, claims)))
	for id, a := range l.accounts {
		if found := float64(a.rate); id != shared && (found < exact*0.9 || found > exact*1.1) {
			t.Fatalf("rate %v, exact %v", found, exact)
		}
	}
}

// TestAClaimIsBackedByUse: who used nothing claims four permits, whatever it reports.
func TestAClaimIsBackedByUse(t *testing.T) {
	l, term := crowd(4, 1000)
	boaster := []fairness.Caller{{ID: fmt.Sprintf("%016x", 99), Weight: 1000, Unmet: fairness.MaxReport,
		Waiting: fairness.MaxReport}}
	for range 2 { // from the second ask on it has an account
		l.Grant(nil, nil, term, 0, 0, boaster, nil)
	}
	if got := l.accounts[boaster[0].ID].claim; got != backedMore*milli {
		t.Errorf("it claims %d thousandths of a permit", got)
	}
}

// TestWhoWaitsAndLacksPermitsIsHeavy: beside one that books all there is, one that waits and never
// finds its permits holds the other down to a half. One that asks for much of the share does not.
func TestWhoWaitsAndLacksPermitsIsHeavy(t *testing.T) {
	const share = 1000
	for size, half := range map[int64]bool{1: true, share / largePart: true, share: false} {
		l, term := &Ledger{}, Term{Now: epoch, Window: simWindow, Share: share}
		all := fairness.Caller{ID: fmt.Sprintf("%016x", 1), Weight: 1000}
		waits := []fairness.Caller{{ID: fmt.Sprintf("%016x", 2), Weight: 1000, Waiting: 4}}
		for range 40 {
			term.Now += simWindow / 8
			_, _, charge := l.Due(term, all, share/8)
			charge(share/8, 0)
			l.Grant(nil, nil, term, 0, 1, waits, []fairness.Ask{{Size: size, Count: 1}})
		}
		if part := l.accounts[all.ID].purse(term).part; part <= share/2 != half {
			t.Errorf("refused %d: the other has a part of %v", size, part)
		}
	}
}

// TestLargeBookingsLeaveWhatIsOwed: a small one leaves nothing. Else many who book a little each
// would get less than those who ask for permits.
func TestLargeBookingsLeaveWhatIsOwed(t *testing.T) {
	const share, owed = 1600, 7
	caller := fairness.Caller{ID: fmt.Sprintf("%016x", 1), Weight: 1000}
	for permits, want := range map[int64]int64{1: 0, 4: 0, share/largeBooking - 1: 0, share / largeBooking: owed} {
		l, term := crowd(4, share)
		l.half, l.owed = term.Now*2/term.Window, owed*milli
		if _, kept, _ := l.Due(term, caller, permits); kept != want {
			t.Errorf("beside %d permits %d are kept, want %d", permits, kept, want)
		}
	}
}

// TestCreditStaysWhenTheRateChanges: a participant whose part becomes another one has as many
// permits as before, and owes as many.
func TestCreditStaysWhenTheRateChanges(t *testing.T) {
	for _, credit := range []float64{3, -40} {
		l, term := crowd(4, 1000)
		id := fmt.Sprintf("%016x", 1)
		a := l.accounts[id]
		a.empty, a.stated = emptied(term, a.rate, credit), term.Now-simWindow/16
		term.Share = 4000
		before := a.rate
		l.Grant(nil, nil, term, 0, 0, []fairness.Caller{{ID: id, Weight: 1000}}, nil)
		if got := a.purse(term).credit; a.rate < 2*before || got < credit-0.01 || got > credit+0.01 {
			t.Errorf("at a rate of %d, before %d, it has %v permits, and had %v", a.rate, before, got, credit)
		}
	}
}

// TestANewNameIsServedFromTheSharedAccount: its first ask costs its own account nothing, and gives
// it nothing.
func TestANewNameIsServedFromTheSharedAccount(t *testing.T) {
	l, term := crowd(4, 1000)
	l.accounts[shared].used = 0
	l.Grant(nil, nil, term, 1000, 0, []fairness.Caller{{ID: fmt.Sprintf("%016x", 99), Weight: 1000}},
		[]fairness.Ask{{Size: 1, Count: 1}})
	own := l.accounts[fmt.Sprintf("%016x", 99)]
	if l.accounts[shared].used != 2*milli || own.used != 0 || own.empty != term.Now || own.claim != 0 {
		t.Errorf("shared %+v, own %+v", l.accounts[shared], own)
	}
}

// TestRestoredCreditIsBounded: permits that come back are credit again, as far as the account holds
// it, and do not count as used.
func TestRestoredCreditIsBounded(t *testing.T) {
	l, term := crowd(4, 1000)
	id := fmt.Sprintf("%016x", 1)
	a := l.accounts[id]
	a.used, a.empty = 20*milli, emptied(term, a.rate, -5)
	l.Restore(term, id, 7)
	if got := a.purse(term).credit; got < 1.99 || got > 2.01 || a.used != 6*milli {
		t.Errorf("after 7 permits came back: %+v, a credit of %v", a, got)
	}
	l.Restore(term, id, 1_000_000)
	if got, most := a.purse(term).credit, depth(float64(a.rate)/milli); got != most || a.used != 0 {
		t.Errorf("after many came back: %+v, a credit of %v, want %v", a, got, most)
	}
}

// TestAClockThatIsSetBackIsSurvived: no sum falls below zero, and parts are found again.
func TestAClockThatIsSetBackIsSurvived(t *testing.T) {
	l, term := crowd(20, 1000)
	for i := range 4000 {
		term.Now += simWindow / 400
		if i == 100 {
			term.Now -= simWindow * 3 / 4
		}
		caller := fairness.Caller{ID: fmt.Sprintf("%016x", i%20), Weight: 1000, Unmet: 5000}
		l.Grant(nil, nil, term, 1000, 0, []fairness.Caller{caller}, []fairness.Ask{{Size: 1, Count: 10}})
		for _, s := range l.sums {
			if s.light < 0 || s.heavy < 0 {
				t.Fatalf("sums %+v", l.sums)
			}
		}
	}
	if e := l.accounts[fmt.Sprintf("%016x", 1)].purse(term).part; e < 45 || e > 55 {
		t.Errorf("one of twenty is entitled to %v of 1000", e)
	}
}
