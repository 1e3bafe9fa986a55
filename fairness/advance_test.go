package fairness

import (
	"fmt"
	"testing"
)

// contend has ten participants ask for all they can get a while, the first of them of so many free
// permits, the others of what they are entitled to.
func contend(ledger *Ledger, term *Term, callers []Caller, steps int, firsts int64) {
	for range steps {
		term.Now += simWindow / 10
		for i := range callers {
			var counts [1]int64
			var hints [1]Hint
			free := int64(20)
			if i == 0 {
				free = firsts
			}
			_, granted, _ := ledger.Grant(counts[:0], *term, free, callers[i:i+1], []Ask{{Size: 1, Count: 1000}})
			ledger.Settle(hints[:0], *term, free-granted, simWindow/100)
		}
	}
}

// among returns a ledger of a shard of a thousand permits on which ten participants contend.
func among(t *testing.T) (*Ledger, Term, []Caller) {
	t.Helper()
	ledger, term := &Ledger{}, Term{Now: epoch / simWindow * simWindow, Window: simWindow, Share: 1000}
	var callers []Caller
	for i := range 10 {
		callers = append(callers, Caller{ID: fmt.Sprintf("%016x", i+1), Slot: -1, Weight: milli, Waiting: 1000})
	}
	contend(ledger, &term, callers, 40, 20) // long enough for claims and credit
	if e := ledger.entitlement(term, &ledger.accounts[1]); e < 90 || e > 110 {
		t.Fatalf("entitled to %g, want about 100", e)
	}
	return ledger, term, callers
}

// TestWhatIsBookedAndNotPaidIsBounded: half of the share may be booked before it is paid, and the
// next half behind it, but what comes behind these has to be saved up first.
func TestWhatIsBookedAndNotPaidIsBounded(t *testing.T) {
	for _, c := range []struct{ ahead, permits, least, most int64 }{
		{0, 500, 0, 0},
		{500, 500, 0, 0},
		{600, 500, 60_000, 100_000},    // 100 less what it has, while 1,100 a window come
		{1000, 500, 350_000, 460_000},  // all of it
		{5000, 500, 350_000, 460_000},  // but no more than that
		{1000, 10, 0, 10_000},          // that much its bucket may hold
		{1000, 1000, 800_000, 920_000}, // what is beyond the part of a window it can save up
	} {
		ledger, term, callers := among(t)
		term.Now += simWindow / 4
		if _, hold := ledger.Due(term, callers[0], c.permits, c.ahead); hold < c.least || hold > c.most {
			t.Errorf("%d permits behind %d: in %d us, want %d to %d", c.permits, c.ahead, hold, c.least, c.most)
		}
		ledger.Charge(term, 0, term.Now)
	}
}

// TestADebtDoesNotGrowWithThoseWhoCome: who booked for the next window while it had to share with
// few owes no more than it booked when many have come.
func TestADebtDoesNotGrowWithThoseWhoCome(t *testing.T) {
	ledger, term, callers := among(t)
	ledger.level = level{spare: 1000 * milli, heavy: 2 * milli} // its part is half of all
	if pay, hold := ledger.Due(term, callers[0], 20, 0); pay > simWindow/2 || hold > 0 {
		t.Fatal(pay, hold)
	}
	ledger.Charge(term, 20, term.Now+simWindow)
	ledger.level = level{spare: 1000 * milli, heavy: 20 * milli} // a twentieth
	term.Now += simWindow
	if pay, _ := ledger.Due(term, callers[0], 20, 0); pay > simWindow/2 {
		t.Errorf("20 permits more can be paid in %d us, at 50 a window", pay)
	}
	ledger.Charge(term, 0, term.Now)
}

// TestWhatComesUntilTheDateIsCountedOnce: the credit of the time until what is booked may be used
// is in what it is charged.
func TestWhatComesUntilTheDateIsCountedOnce(t *testing.T) {
	ledger, term, callers := among(t)
	ledger.Due(term, callers[0], 500, 0)
	ledger.Charge(term, 500, term.Now+2*simWindow)
	for _, after := range []int64{0, simWindow, simWindow} {
		term.Now += after
		ledger.Due(term, callers[0], 1, 0)
		ledger.Charge(term, 0, term.Now)
	}
	// It was entitled to about 100 a window and had 15 saved up: 285 are left to pay, and then the
	// bucket is to be filled.
	if pay, _ := ledger.Due(term, callers[0], 500, 0); pay < 26*simWindow/10 || pay > 34*simWindow/10 {
		t.Errorf("the next can be paid in %d us, want three windows", pay)
	}
	ledger.Charge(term, 0, term.Now)
}

// A script counts in doubles, so what is lent is a number that a double holds, however large it
// is.
func TestWhatIsLentIsWhatADoubleHolds(t *testing.T) {
	a := account{lent: 604_556_688_300_454_528, credit: 1_000_003}
	a.draw(1_000_031)
	if a.credit != 1_000_031 || int64(float64(a.lent)) != a.lent {
		t.Errorf("credit %d, lent %d", a.credit, a.lent)
	}
}
