package fairness

// sweep is a pass over all accounts, a few with each call: it adds up what is wanted, forgets who
// is silent, and ends in the next step of Newton's iteration towards the water level. The demand
// met at a level is a concave, piecewise linear function of it, so that the iteration, begun below
// the level, climbs to it in finitely many steps and never passes it.
type sweep struct {
	next   int     // the account to look at next; -1: no pass is under way
	began  int64   // when the last pass began, us
	light  float64 // demand of those below the level, thousandths of a permit
	heavy  int64   // weight of those at or above it
	claims float64 // demand of all
	weight int64   // weight of those who have a demand
	count  int     // how many these are
}

// look continues the pass under way, or begins one if it is time.
func (l *Ledger) look(t Term) {
	s := &l.sweep
	if s.next < 0 {
		often := int64(passes)
		if l.level.heavy == 0 {
			often = max(passes, int64(anew*slice/max(slice, len(l.accounts))))
		}
		if since := t.Now - s.began; since >= 0 && since*often < t.Window {
			return
		}
		*s = sweep{began: t.Now}
	}
	whole := s.next == 0 && len(l.accounts) <= slice
	for range slice {
		if s.next >= len(l.accounts) {
			break
		}
		if l.forgotten(t, s.next) {
			last := len(l.accounts) - 1
			l.accounts[s.next] = l.accounts[last]
			l.accounts = l.accounts[:last]
			continue
		}
		a := &l.accounts[s.next]
		s.add(l.level, a.demand(t), a.weight)
		s.next++
	}
	if s.next >= len(l.accounts) {
		s.next = -1
		l.finish(t, whole)
	}
}

// forgotten reports whether an account is given up: after two windows of silence, or sooner if its
// name came only once. While there is no room for another one, those that want hardly anything give
// way one by one: else names that are kept alive could push all who come later into one account.
func (l *Ledger) forgotten(t Term, slot int) bool {
	a := &l.accounts[slot]
	idle := t.Now - a.seen
	switch {
	case slot == 0:
		return false
	case idle >= forgetting*t.Window:
		return true
	case len(l.accounts) > MaxAccounts && a.cell > 0:
		return a.demand(t)*hardly*MaxAccounts < float64(t.Share)*milli
	case len(l.accounts) > MaxAccounts:
		return idle*onceFull >= t.Window
	}
	return a.cell == 0 && len(l.accounts) > roomy && idle*onceRoomy >= t.Window
}

// add counts a demand at a level.
func (s *sweep) add(l level, demand float64, weight int64) {
	if demand == 0 {
		return
	}
	s.claims += demand
	s.weight += weight
	s.count++
	if l.heavy == 0 || demand*float64(l.heavy) < float64(weight)*float64(l.spare) {
		s.light += demand
	} else {
		s.heavy += weight
	}
}

// finish takes one step towards the level, or, if the pass saw all accounts at once, all of them.
func (l *Ledger) finish(t Term, whole bool) {
	s := &l.sweep
	l.weights = s.weight
	capacity := t.Share * milli
	if s.count < 2 || s.claims <= float64(capacity) {
		l.level = level{}
		return
	}
	lowest := level{spare: capacity, heavy: s.weight}
	if !whole {
		l.level = s.step(capacity, lowest)
		return
	}
	l.level = lowest
	for range slice {
		var again sweep
		for i := range l.accounts {
			again.add(l.level, l.accounts[i].demand(t), l.accounts[i].weight)
		}
		before := l.level
		if l.level = again.step(capacity, lowest); l.level == before {
			return
		}
	}
}

// step returns the next level, given what was counted at the last one.
func (s *sweep) step(capacity int64, lowest level) level {
	if s.heavy == 0 || s.light >= float64(capacity) {
		return lowest
	}
	return level{spare: capacity - int64(s.light), heavy: s.heavy}
}
