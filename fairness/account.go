package fairness

import "math"

// account is what is known of one participant. Everything is an integer, so that it can be stored
// exactly; sums are in float64, in which Lua and Go agree bit for bit as long as Go does not fuse
// multiplications and additions: hence the conversions of products.
type account struct {
	id     string
	weight int64 // thousandths
	seen   int64 // last ask, or the instant for which it was last told to come back; us
	claim  int64 // what it wanted per window at its last ask, backed by use; thousandths of a permit
	// when credit was last added, us; ahead: credit is as it will be then, when something booked
	// may be used
	filled int64
	credit int64 // millionths of a permit; below 0: a debt
	// the window, counted from 0, that used[0] and unmet[0] are about; 0: its name came only once,
	// and used and unmet are what the shared account was charged for it
	cell   int64
	used   [2]int64 // permits in this window and the one before
	unmet  [2]int64 // thousandths
	due    int64    // when the permits come of its last appointment, us
	denied int64    // the instant for which it was told to come back when it was last refused, us
	waited int64    // part of its time in which its callers waited, billionths
	lent   int64    // credit that was lent beyond what the account can hold, millionths of a permit
}

// roll begins a new window in the counters.
func (a *account) roll(t Term) {
	cell := t.Now / t.Window
	if a.cell == cell {
		return
	}
	if a.cell == cell-1 {
		a.used[1], a.unmet[1] = a.used[0], a.unmet[0]
	} else {
		a.used[1], a.unmet[1] = 0, 0
	}
	a.used[0], a.unmet[0], a.cell = 0, 0, cell
}

// depth is the most credit, in permits, of a participant entitled to e permits a window: little, so
// that bursts do not come back every window.
func depth(e float64) float64 { return max(depthLeast, depthPart*e, depthRoot*math.Sqrt(e)) }

// capacity is the most credit, in millionths, of a participant that books so many permits ahead, 0
// if it books none. What is beyond the part of a window may be saved up: that keeps large bookings
// a window apart.
func capacity(e float64, booking int64) float64 {
	return math.Floor(depth(e)*micro) + math.Floor(max(float64(booking)-e, 0)*micro)
}

// fill adds the credit that came since the last time, up to a limit; what is beyond that is lost. e
// is the entitlement in permits per window.
func (a *account) fill(t Term, e, limit float64) {
	credit := float64(a.credit)
	gain := math.Floor(e * micro * float64(max(t.Now-a.filled, 0)) / float64(t.Window))
	if gain >= grain {
		credit += gain
		a.filled = t.Now
	}
	if a.filled-t.Now > farAhead*t.Window { // further than bookings reach: the clock was set back
		a.filled = t.Now
	}
	a.credit = int64(min(credit, limit))
	a.draw(limit)
}

// lend gives the credit of the time until something comes back, in advance and beyond what the
// account can hold: at most that of a window.
func (a *account) lend(t Term, e float64, next int64) {
	until := t.Now + min(next, t.Window)
	if until <= a.filled {
		return
	}
	limit := capacity(e, 0)
	credit := float64(a.credit) + math.Floor(e*micro*float64(until-a.filled)/float64(t.Window))
	if credit > limit {
		a.lent = max(a.lent, int64(min(float64(a.lent)+credit-limit, math.Floor(e*micro))))
		credit = limit
	}
	a.credit, a.filled = int64(credit), until
}

// draw takes credit from what was lent, up to a limit.
func (a *account) draw(limit float64) {
	if credit := float64(a.credit); a.lent > 0 && credit < limit {
		drawn := min(float64(a.lent), limit-credit)
		a.credit, a.lent = int64(credit+drawn), int64(float64(a.lent)-drawn) // rounded as the script rounds it
	}
}

// top fills the account while nobody has to be held back. A debt is not forgiven, but paid as fast
// as the limit allows: who books ahead has debts, and for a moment there may seem to be nobody
// else.
func (a *account) top(t Term) {
	if a.credit < 0 {
		a.fill(t, float64(t.Share), capacity(float64(t.Share), 0))
		return
	}
	a.credit, a.filled = int64(capacity(float64(t.Share), 0)), t.Now
}

// spread divides the demand that was not met in the last span of us among this window and the one
// before. Of a longer time than a window only the last window counts: else a participant that came
// late, because nothing was to be had, would seem to want all of it at once.
func (t Term) spread(unmet, span int64) [2]int64 {
	span = max(span, 1)
	if span > t.Window {
		unmet = int64(float64(unmet) * float64(t.Window) / float64(span))
		span = t.Window
	}
	recent := int64(float64(unmet) * float64(min(t.Now%t.Window, span)) / float64(span))
	return [2]int64{recent, unmet - recent}
}

// wait notes whether the participant's callers have been waiting in the last span of us: what is
// remembered is an average in which half a window counts.
func (a *account) wait(t Term, waiting, span int64) {
	target := 0.0
	if waiting > 0 {
		target = giga
	}
	share := min(float64(max(span, 1))*2, float64(t.Window)) / float64(t.Window)
	a.waited += int64(math.Floor((target - float64(a.waited)) * share))
}

// state notes what the participant wants: a claim counts only as far as it is backed by use, so
// that overstating gains nothing. What the call under way brings is not yet in it: seen at the
// instants of its own asks, the use before them is what it is on average, and with them one ask
// more.
//
// Callers that wait ask for nothing else meanwhile, so their number says little of what they want.
// As each makes 1 / (work + wait) calls a second, those that waited for a part f of their time
// would have used 1 / (1 - f) times as much without; from a half on that is as much as use backs.
//
// The greatest use of two windows backs a claim, because that of the last one falls and rises again
// where permits come back all at once. Who was refused, until half a window after it was to come
// back, may claim half an equal part by weight, whatever it used: it did want them, and would else
// grow by doubling. And it wants no less than it had in either window, though of what it had at
// once the average seems to be nothing just before it has it again. If its callers also waited for
// half of the time or more, its claim falls by no more than half in a window (span is since its
// last ask, us): it may be shut out for one and longer by what others booked.
//
// Who books so many permits ahead (0: it does not) may claim them, up to two equal parts, whatever
// it used: it is charged for them. Not so who still owes for what it had: it may have cancelled
// that, and others have its part until it has paid.
func (a *account) state(t Term, waiting, span, weights, booking int64) {
	left := float64(t.Window - t.Now%t.Window)
	used := math.Floor(float64(float64(a.used[0])*milli) + float64(a.used[1])*milli*left/float64(t.Window))
	unmet := math.Floor(float64(a.unmet[0]) + float64(a.unmet[1])*left/float64(t.Window))
	greatest := max(used, float64(a.used[0])*milli, float64(a.used[1])*milli)
	backed, kept := float64(greatest*backedTimes)+backedMore*milli, 0.0
	if a.refusedLately(t) {
		backed = max(backed, math.Floor(float64(t.Share)*milli*float64(a.weight)/float64(max(weights, a.weight))/2))
		used = greatest
		if a.waited*2 >= giga {
			kept = math.Floor(float64(a.claim) * float64(max(2*t.Window-max(span, 1), 0)) / float64(2*t.Window))
		}
	}
	if booking > 0 && a.credit >= 0 {
		part := math.Floor(float64(t.Share) * 2 * milli * float64(a.weight) / float64(max(weights, a.weight)))
		backed = max(backed, min(float64(booking)*milli, part))
	}
	reported := used + unmet + float64(float64(waiting)*milli)
	unhindered := backed
	if a.waited*2 < giga {
		unhindered = math.Floor(float64(used*giga) / float64(giga-a.waited))
	}
	a.claim = int64(max(min(max(reported, unhindered), backed), kept))
	a.seen = t.Now
}

// refusedLately reports whether the participant was refused, until half a window after it was to
// come back.
func (a *account) refusedLately(t Term) bool {
	since := t.Now - a.denied
	return since >= -recently*t.Window && since*2 <= t.Window
}

// await notes when a participant that was refused will be back at the soonest: until then it is not
// silent, it does what it was told. Without it the claims of those who wait would fade before the
// permits come that they wait for.
func (a *account) await(t Term, retry, free, next int64) {
	if free < 1 {
		retry = max(retry, next)
	}
	a.denied = t.Now + min(retry, recently*t.Window)
	a.seen = max(a.seen, a.denied)
}

// demand is the claim, which fades once the participant has been silent for a quarter of a window
// and is gone after a whole one.
func (a *account) demand(t Term) float64 {
	idle := max(t.Now-a.seen, 0)
	switch {
	case idle*fading <= t.Window:
		return float64(a.claim)
	case idle >= t.Window:
		return 0
	}
	return math.Floor(float64(float64(a.claim)*float64((t.Window-idle)*fading)) / float64(t.Window*(fading-1)))
}
