package fairness

import "testing"

// TestHoldingHasItsPrice: what is given back after a part of a window costs twice that part of it,
// what was held for half a window or longer as much as what is used, and what is given back at once
// nothing.
func TestHoldingHasItsPrice(t *testing.T) {
	for _, c := range []struct{ held, cost int64 }{
		{0, 0}, {simWindow / 10, 16}, {simWindow / 2, 80}, {simWindow, 80}, {10 * simWindow, 80},
	} {
		ledger, term, callers := among(t)
		ledger.Due(term, callers[0], 80, 0)
		opened := ledger.accounts[1]
		ledger.Charge(term, 80, term.Now)
		ledger.Restore(term, callers[0].ID, 1, 80, c.held)
		a := ledger.accounts[1]
		if cost := opened.credit - a.credit; cost != c.cost*micro {
			t.Errorf("held for %d us: it cost %d millionths, want %d permits", c.held, cost, c.cost)
		}
		if used := a.used[0] + a.used[1] - opened.used[0] - opened.used[1]; used != c.cost {
			t.Errorf("held for %d us: %d count as used, want %d", c.held, used, c.cost)
		}
	}
}

// TestWhoCancelsAgainAndAgainPays: a participant that books the share and gives it back after a
// millisecond, again and again, may do so for a tenth of the time: that is its part.
func TestWhoCancelsAgainAndAgainPays(t *testing.T) {
	ledger, term, callers := among(t)
	const hold, windows = simWindow / 1000, 20
	held := int64(0)
	for end := term.Now + windows*simWindow; term.Now < end; {
		contend(ledger, &Term{Now: term.Now - simWindow/10, Window: term.Window, Share: term.Share}, callers[1:], 1, 20)
		pay, hindered := ledger.Due(term, callers[0], 1000, 0)
		if pay > 0 || hindered > 0 {
			ledger.Charge(term, 0, term.Now+max(pay, hindered))
			term.Now += max(min(pay, simWindow/100), hold)
			continue
		}
		ledger.Charge(term, 1000, term.Now)
		term.Now += hold
		held += hold
		ledger.Restore(term, callers[0].ID, 1, 1000, hold)
	}
	if part := float64(held) / (windows * simWindow); part > 0.15 {
		t.Errorf("it held all permits for %.2f of the time", part)
	} else {
		t.Logf("it held all permits for %.2f of the time", part)
	}
}
