package fairness

import (
	"math"
	"slices"
)

// shared is the id of the account of those who have none of their own: names seen for the first
// time, and names beyond [MaxAccounts].
const shared = "****************"

// Ledger keeps the accounts of the participants of one shard while they contend. Each is paced by a
// shallow bucket of credit, which fills at its weight × level; a small headroom of free permits is
// kept for those who have much credit left. What decides how much may be granted at all is
// elsewhere: a ledger that is lost or wrong harms fairness only.
//
// A call is [Ledger.Grant] and then [Ledger.Settle] with the same term. The zero value is an empty
// ledger; not safe for concurrent use. A call looks at a bounded number of accounts, except that a
// participant whose slot is not known is searched for.
type Ledger struct {
	accounts  []account // the first is the shared one; none: the ledger is empty
	appointed int64     // until then the permits that come back have been appointed, us; see appoint
	level     level
	weights   int64 // of those who had a demand when the last pass ended, thousandths
	sweep     sweep
	open      []entry // the callers of the call under way
	asked     int64   // permits that Due was asked for: of those that are charged, fewer may count
}

// level is the water level in thousandths of a permit per thousandth of weight, as a fraction;
// heavy is 0 where nobody has to be held back.
type level struct {
	spare, heavy int64
}

// entry is a caller of the call under way.
type entry struct {
	own      int     // slot of its own account; -1: it has none
	from     int     // slot of the account that it is served from
	e        float64 // entitlement in permits per window; 0: it is not held back
	refused  int64   // size of its first ask that was refused; 0: none
	unserved float64 // permits that it asked for and did not get
}

// Clone returns a copy that shares nothing with b.
func (l *Ledger) Clone() Ledger {
	twin := *l
	twin.accounts, twin.open = slices.Clone(l.accounts), nil
	return twin
}

// Clear empties the ledger.
func (l *Ledger) Clear() { *l = Ledger{accounts: l.accounts[:0], open: l.open[:0]} }

// Grant distributes free permits among the asks, in order. It appends to dst how many of each were
// granted, whole, and returns the permits granted in all and the size of the first ask that was
// refused, 0 if none was. Callers and asks must be valid, and every ask's caller must exist.
func (l *Ledger) Grant(dst []int64, t Term, free int64, callers []Caller,
	asks []Ask) (perAsk []int64, granted, refused int64) {
	l.admit(t, callers, 0)
	left := free
	for _, ask := range asks {
		entry := &l.open[ask.Caller]
		count := l.allow(t, entry, ask, left)
		dst = append(dst, count)
		left -= count * ask.Size
		if count < ask.Count {
			// beyond what an integer holds where both are huge
			entry.unserved += float64(ask.Count-count) * float64(ask.Size)
			if entry.refused == 0 {
				entry.refused = ask.Size
			}
			if refused == 0 {
				refused = ask.Size
			}
			l.deny(t, entry)
		}
		account := &l.accounts[entry.from]
		account.used[0] += count * ask.Size
		if entry.own > 0 && entry.own != entry.from {
			l.accounts[entry.own].used[0] += count * ask.Size
		}
		if entry.e > 0 {
			account.credit = int64(float64(account.credit) - float64(float64(count*ask.Size)*micro))
		}
	}
	return dst, free - left, refused
}

// deny notes that a participant was refused.
func (l *Ledger) deny(t Term, entry *entry) {
	l.accounts[entry.from].denied = t.Now
	if entry.own > 0 {
		l.accounts[entry.own].denied = t.Now
	}
}

// admit opens the accounts of a call: what was reported and what credit has come since. booking is
// how many permits it wants to book ahead; 0: it wants to take. Of bookings it is not known whether
// those who made them waited.
func (l *Ledger) admit(t Term, callers []Caller, booking int64) {
	if len(l.accounts) == 0 {
		l.accounts = append(l.accounts, account{id: shared, weight: milli, seen: t.Now, filled: t.Now})
		l.appointed, l.level, l.weights, l.sweep = 0, level{}, 0, sweep{next: -1}
	}
	l.open = l.open[:0]
	for i := range callers {
		caller := &callers[i]
		e := entry{own: l.find(caller)}
		span := t.Window // of those who are not known
		if e.own > 0 {
			e.from = e.own
			span = t.Now - l.accounts[e.own].filled // its last ask, as nearly as it matters here
			l.settleIn(t, &l.accounts[e.own])
		}
		unmet := t.spread(caller.Unmet, span)
		if e.own < 0 && len(l.accounts) <= MaxAccounts {
			e.own = len(l.accounts)
			l.accounts = append(l.accounts,
				account{id: caller.ID, weight: caller.Weight, seen: t.Now, filled: t.Now, unmet: unmet})
		}
		a := &l.accounts[e.from]
		a.weight = caller.Weight
		a.roll(t)
		a.unmet[0] = min(a.unmet[0]+unmet[0], most)
		a.unmet[1] = min(a.unmet[1]+unmet[1], most)
		if booking == 0 && e.own > 0 && e.own == e.from {
			a.wait(t, caller.Waiting, span)
		}
		a.state(t, caller.Waiting, span, l.weights, booking)
		if l.level.heavy > 0 {
			e.e = l.entitlement(t, a)
			a.fill(t, e.e, capacity(e.e, booking))
		} else {
			a.top(t)
		}
		l.open = append(l.open, e)
	}
}

// settleIn moves to an account whose name has come back what the shared one was charged for its
// first ask. Else a participant that is alone would seem to be two.
func (l *Ledger) settleIn(t Term, a *account) {
	if a.cell > 0 {
		return
	}
	a.cell = a.filled / t.Window
	s := &l.accounts[0]
	s.roll(t)
	for i := s.cell - a.cell; i == 0 || i == 1; i++ {
		s.used[i] = max(0, s.used[i]-a.used[i-s.cell+a.cell])
		s.unmet[i] = max(0, s.unmet[i]-a.unmet[i-s.cell+a.cell])
	}
	s.state(t, 0, t.Window, l.weights, 0)
}

// find returns the slot of a caller's own account, or -1.
func (l *Ledger) find(caller *Caller) int {
	if caller.Slot > 0 && caller.Slot < len(l.accounts) && l.accounts[caller.Slot].id == caller.ID {
		return caller.Slot
	}
	return slices.IndexFunc(l.accounts, func(a account) bool { return a.id == caller.ID })
}

// entitlement returns the permits per window that an account is paced at; there must be a level.
func (l *Ledger) entitlement(t Term, a *account) float64 {
	return min(float64(float64(a.weight)*float64(l.level.spare))/float64(l.level.heavy)/milli, float64(t.Share))
}

// headroom is how many permits are kept free for those who have all their credit left. A whole
// permit is much of a small share: there it is kept only while somebody wants less than its part,
// comes seldom, and would find it gone.
func (l *Ledger) headroom(t Term) float64 {
	kept := headroomPart * float64(t.Share)
	if kept < 1 && l.level.spare >= t.Share*milli {
		return 0
	}
	return max(1, kept)
}

// allow returns how many asks of a group are granted out of left permits. The emptier the credit,
// the more must stay free. An ask for more than the account can ever hold goes through once it is
// full, and leaves a debt.
func (l *Ledger) allow(t Term, entry *entry, ask Ask, left int64) int64 {
	fit := min(ask.Count, left/ask.Size)
	if entry.e == 0 || fit == 0 {
		return fit
	}
	a := &l.accounts[entry.from]
	deep, credit, size := depth(entry.e), float64(a.credit)/micro, float64(ask.Size)
	kept := l.headroom(t)
	slope := kept / deep
	keep := math.Floor((float64(left) - kept + float64(slope*(credit+1))) / (1 + slope))
	count := math.Floor(min(credit, keep) / size)
	if count < 1 && float64(a.credit) >= math.Floor(deep*micro) {
		count = 1
	}
	return int64(max(0, min(float64(fit), count)))
}

// Settle ends a call: it appends to dst when each participant should come back, and looks at some
// more accounts to keep the level up to date. free is what is left after the grants, next the
// number of microseconds until more comes back.
func (l *Ledger) Settle(dst []Hint, t Term, free, next int64) []Hint {
	for i := range l.open {
		entry := &l.open[i]
		if entry.e > 0 {
			l.accounts[entry.from].draw(capacity(entry.e, 0))
		}
		retry := l.hint(t, entry, free, next)
		dst = append(dst, Hint{Slot: entry.own, Retry: retry})
		if entry.unserved > 0 {
			l.accounts[entry.from].await(t, retry, free, next)
			if t.Falling && free < 1 && entry.e > 0 {
				l.accounts[entry.from].lend(t, entry.e, next)
			}
		}
	}
	l.look(t)
	return dst
}

// hint returns when a participant should come back: when its credit allows what it wants, and about
// when the permits are there. One that is not paced gets none: what is free, and when more will be,
// it learns exactly from elsewhere.
//
// Who is refused wants a part of what its account can hold at once, so that a few calls bring much,
// but no more than comes back in a 64th of a window: where few share a limit, what is free lies
// there until one of them comes. Who got all it asked for, but wants more than its part and would
// be refused now, need not come to hear it: it waits for its appointment like one that was refused.
func (l *Ledger) hint(t Term, entry *entry, free, next int64) int64 {
	if entry.e == 0 {
		return 0
	}
	a := &l.accounts[entry.from]
	window, deep := float64(t.Window), depth(entry.e)
	credit, refused, unserved := float64(a.credit)/micro, float64(entry.refused), entry.unserved
	wait := func(want float64) float64 { return min(window/pausePart, (want-credit)*window/entry.e) }
	if unserved == 0 {
		if float64(a.claim) < entry.e*milli {
			return int64(math.Ceil(max(wait(1), 0)))
		}
		if l.allow(t, entry, Ask{Size: 1, Count: 1}, free) > 0 {
			return 0
		}
		refused, unserved = 1, 1
	}
	need, retry := refused-float64(free), 0.0
	want := max(1, min(refused, deep), min(unserved, math.Floor(min(deep/2, float64(t.Share)/wantPart))))
	if credit < want {
		retry = wait(want)
	} else {
		need += math.Ceil(l.headroom(t) * (1 - credit/deep))
	}
	if need > 0 {
		retry = max(retry, float64(next)+(need-1)*window/float64(max(t.Share, 1)))
	}
	if float64(a.claim) >= entry.e*milli { // it wants more than its part
		if a.due <= t.Now || a.due-t.Now > farAhead*t.Window {
			a.due = t.Now + l.appoint(t, want, free, next)
		}
		retry = max(retry, float64(a.due-t.Now))
	}
	return int64(math.Ceil(max(min(retry, window), window/leastPart)))
}

// appoint makes an appointment with a participant for the permits that come back behind all others,
// and returns in how many microseconds the last of them is there. Without it all who wait for
// permits would come at the same release, and all but the first in vain. An appointment is a hint
// like any other: what is free goes to whoever asks and has the credit, so that nothing is lost if
// somebody does not come back. Appointments reach a quarter of a window ahead, and nobody has two
// at once. While nothing is free, the first is not for a time before the next permit comes back:
// next is in how many microseconds that is.
func (l *Ledger) appoint(t Term, want float64, free, next int64) int64 {
	ahead := l.appointed - t.Now
	if ahead < 0 || ahead > farAhead*t.Window { // further than appointments reach: the clock was set back
		ahead = 0
	}
	share := float64(max(t.Share, 1))
	if free < 1 {
		ahead = max(ahead, min(next, t.Window)-int64(math.Ceil(float64(t.Window)/share)))
	}
	if ahead*reachPart <= t.Window {
		ahead += int64(math.Ceil(want * float64(t.Window) / share))
		l.appointed = t.Now + ahead
	}
	return ahead
}
