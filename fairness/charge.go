package fairness

import "math"

const (
	deepest  = 1_000_000_000_000_000_000 // millionths of a permit: no debt is greater
	farthest = 1_000_000_000_000_000     // us: no payment takes longer
	busiest  = 1_000_000_000_000         // permits: what bookings may bring the use of a window to
)

// Due opens the account of a participant that wants to book permits ahead, and returns in how many microseconds its credit can pay for them: 0 if it can
// now. As for a take, credit pays for an ask for more than it can ever hold once it is full, and that leaves a debt. [Book.Charge] must follow.
// Of the seat's reports only Waiting is looked at.
func (b *Book) Due(t Term, seat Seat, permits int64) int64 {
	seat.Turned = 0
	b.seat(t, []Seat{seat}, false)
	entry := &b.open[0]
	if entry.e == 0 {
		return 0
	}
	a := &b.accounts[entry.from]
	credit := float64(a.credit)
	want := min(float64(permits)*micro, math.Floor(depth(entry.e)*micro))
	if credit >= want {
		return 0
	}
	return max(0, int64(math.Ceil(min((want-credit)*float64(t.Window)/(entry.e*micro), farthest)))-(t.Now-a.filled))
}

// Charge ends what Due began: the participant has booked so many permits, 0 if none. They count as used now, and it is not silent
// before date, when they may be used.
func (b *Book) Charge(permits, date int64) {
	entry := &b.open[0]
	a := &b.accounts[entry.from]
	a.use(permits)
	a.seen = max(a.seen, date)
	if entry.own > 0 && entry.own != entry.from {
		b.accounts[entry.own].use(permits)
	}
	if entry.e > 0 {
		a.credit = int64(max(float64(a.credit)-float64(float64(permits)*micro), -deepest))
	}
}

// use counts permits that were booked. Bookings reach further ahead than a window, so unlike those of takes their sum has to be bounded.
func (a *account) use(permits int64) { a.used[0] = max(a.used[0], min(a.used[0]+permits, busiest)) }

// Restore makes up for permits that a participant gave back: they do not count as used any more, those of this window first, and its credit has
// them again, as far as it can hold them. slot is a hint, as in a [Seat]. Who has no account of its own was charged to the shared one.
func (b *Book) Restore(t Term, id string, slot int, permits int64) {
	if len(b.accounts) == 0 {
		return
	}
	a := &b.accounts[0]
	if own := b.find(&Seat{ID: id, Slot: slot}); own > 0 {
		a = &b.accounts[own]
		b.settleIn(t, a)
	}
	a.roll(t)
	recent := min(permits, a.used[0])
	a.used[0] -= recent
	a.used[1] = max(0, a.used[1]-(permits-recent))
	if b.level.heavy == 0 {
		a.top(t)
		return
	}
	e := b.entitlement(t, a)
	a.fill(t, e)
	a.credit = int64(min(float64(a.credit)+float64(float64(permits)*micro), math.Floor(depth(e)*micro)))
}
