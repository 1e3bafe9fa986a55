package fairness

import "math"

// Due opens the account of a participant that wants to book permits ahead, and returns in how many
// microseconds its credit can pay for them: 0 if it can now. As for a take, credit pays for an ask
// for more than it can ever hold once it is full, and that leaves a debt. [Ledger.Charge] must
// follow. Of the caller's reports only Waiting is looked at.
//
// ahead is how many permits are booked ahead on the shard already. What is booked and not yet paid
// is no more than the share, or those who book large amounts would have whole windows until all
// have had their first. Beyond that they have to save up before they book: hold is in how many
// microseconds the participant should try again for that reason, because until then a share comes
// back and credit comes, and 0 if it may book.
func (l *Ledger) Due(t Term, caller Caller, permits, ahead int64) (pay, hold int64) {
	caller.Unmet, l.asked = 0, permits
	l.admit(t, []Caller{caller}, permits)
	entry := &l.open[0]
	if entry.e == 0 {
		return 0, 0
	}
	a := &l.accounts[entry.from]
	credit := float64(a.credit)
	if want := min(float64(permits)*micro, capacity(entry.e, 0)); credit < want {
		pay = max(0, int64(math.Ceil(min((want-credit)*float64(t.Window)/(entry.e*micro), farthest)))-(t.Now-a.filled))
	}
	needed := min(float64(permits-max(0, t.Share-ahead))*micro, capacity(entry.e, permits))
	if credit < needed {
		hold = int64(math.Ceil(min((needed-credit)*float64(t.Window)/((entry.e+float64(t.Share))*micro), farthest)))
		hold = max(hold, t.Window/holdPart) // or it would try ever more often
	}
	return pay, hold
}

// Charge ends what Due began: the participant has booked so many permits, 0 if none. They count as
// used now. date is when they may be used, or when credit can pay for them if that is why none were
// booked. If that is later, the participant was refused, and is not silent before.
//
// The credit that comes until then is added at once, and none before that date: it overflows as it
// does for who waits to take, or those who book large amounts would have the next ones so close to
// the last that one window holds both, and nothing else.
func (l *Ledger) Charge(t Term, permits, date int64) {
	entry := &l.open[0]
	a := &l.accounts[entry.from]
	later := date > a.seen // Due has set that
	a.book(permits, date, later)
	if entry.own > 0 && entry.own != entry.from {
		l.accounts[entry.own].book(permits, date, later)
	}
	if entry.e > 0 && permits > 0 {
		date = max(a.filled, min(date, t.Now+farAhead*t.Window))
		gain := math.Floor(entry.e * micro * float64(date-a.filled) / float64(t.Window))
		full := min(float64(a.credit)+gain, capacity(entry.e, l.asked))
		a.credit = int64(max(full-float64(float64(permits)*micro), -deepest))
		a.filled = date
	}
}

// book counts permits that were booked. Bookings reach further ahead than a window, so unlike those
// of takes their sum has to be bounded.
func (a *account) book(permits, date int64, later bool) {
	a.used[0] = max(a.used[0], min(a.used[0]+permits, busiest))
	if later {
		a.seen, a.denied = max(a.seen, date), max(a.denied, date)
	}
}

// Restore makes up for permits that a participant was granted and did not use. They do not count as
// used any more, those of this window first, and its credit has them again, as far as it can hold
// them. Below 0 they were used and not granted: its credit pays for them.
//
// slot is a hint, as in a [Caller]. A participant that has no account of its own was charged to the
// shared one.
func (l *Ledger) Restore(t Term, id string, slot int, permits int64) {
	if len(l.accounts) == 0 {
		return
	}
	a := &l.accounts[0]
	if own := l.find(&Caller{ID: id, Slot: slot}); own > 0 {
		a = &l.accounts[own]
		l.settleIn(t, a)
	}
	a.roll(t)
	recent := min(permits, a.used[0])
	a.used[0] = min(a.used[0]-recent, busiest)
	a.used[1] = max(0, a.used[1]-(permits-recent))
	e := float64(t.Share)
	if l.level.heavy == 0 {
		a.top(t)
	} else {
		e = l.entitlement(t, a)
		a.fill(t, e, capacity(e, 0))
	}
	a.credit = int64(max(min(float64(a.credit)+float64(float64(permits)*micro), capacity(e, 0)), -deepest))
}
