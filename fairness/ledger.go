package fairness

import (
	"maps"
	"math"
	"slices"
)

// shared is the id of the account of those who have none of their own: names seen for the first
// time, and names beyond [MaxAccounts].
const shared = "****************"

// Ledger keeps the accounts of the participants of one shard under contention. Each
// account paces its participant by a bucket of credit, which fills at weight × level. The log of
// the shard decides how much may be granted at all: a ledger that is wrong harms fairness only.
//
// A call is [Ledger.Grant] and [Ledger.Settle], or [Ledger.Due] and [Ledger.Charge], or
// [Ledger.Restore]. The zero value is an empty ledger; not safe for concurrent use. A call looks at
// the accounts of its callers only.
//
// Everything is an integer, so that it can be stored exactly. Lua and Go agree bit for bit as long
// as Go does not fuse multiplications and additions: hence the conversions of products.
type Ledger struct {
	accounts map[string]*account // nil: the ledger is empty
	count    int64               // accounts, without the shared one
	searched int64               // when room was last looked for, us
	half     int64               // the half window under way, counted from 0
	level    int64               // millionths of a permit a window for a weight of 1; 0: nobody is held back
	alone    int64               // weight of the heavy if there are no light ones, else 0
	sums     [3]sum              // of the half window before, of this one and of the next
	open     []*account          // of the callers of the call under way
}

// sum is what accounts add to the water level.
type sum struct {
	light float64 // what those want who want less than their part, thousandths of a permit a window
	heavy float64 // weight of all others, thousandths
}

// account is what is known of one participant. used, unmet and waited are averages of the time when
// its claim was stated, in which the last half window counts most.
type account struct {
	weight int64 // thousandths
	stated int64 // when its claim was last stated, us
	unmet  int64 // what it was denied for good, thousandths of a permit a window
	waited int64 // part of its time in which its callers waited, thousandths
	claim  int64 // what it wants, as far as backed by use, thousandths of a permit a window
	heavy  int64 // 1: it wants its part or more
	longer int64 // 1: its claim counts half a window longer
	used   int64 // thousandths of a permit a window
	seen   int64 // when it had its credit, us
	credit int64 // millionths of a permit; below 0: a debt
	// Of the call under way:
	e        float64 // permits a window at which it is paced; 0: it is not held back
	now      int64   // its credit at this time
	filled   int64   // and when it had that
	refused  int64   // size of its first ask that was refused; 0: none
	unserved float64 // permits that it asked for and did not get
}

// Clone returns a copy that shares nothing with l.
func (l *Ledger) Clone() Ledger {
	twin := *l
	twin.open, twin.accounts = nil, maps.Clone(l.accounts)
	for id, a := range twin.accounts {
		own := *a
		twin.accounts[id] = &own
	}
	return twin
}

// Clear empties the ledger.
func (l *Ledger) Clear() { *l = Ledger{open: l.open[:0]} }

// Grant distributes free permits among the asks, in order. It appends to dst how many of each were
// granted, whole, and returns the permits granted in all and the size of the first ask that was
// refused, 0 if none was. Callers and asks must be valid, and every ask's caller must exist.
func (l *Ledger) Grant(dst []int64, t Term, free int64, callers []Caller,
	asks []Ask) (perAsk []int64, granted, refused int64) {
	l.begin(t, callers)
	left := free
	for _, ask := range asks {
		a := l.open[ask.Caller]
		count := a.allow(t, ask, left)
		dst = append(dst, count)
		left -= count * ask.Size
		if count < ask.Count {
			// beyond what an integer holds where both are huge
			a.unserved += float64(ask.Count-count) * float64(ask.Size)
			if a.refused == 0 {
				a.refused = ask.Size
			}
			if refused == 0 {
				refused = ask.Size
			}
		}
		if count > 0 {
			a.pay(count * ask.Size)
		}
	}
	return dst, free - left, refused
}

// begin brings the ledger to the half window of a call, and opens the accounts of its callers. A
// full ledger is begun anew for a name that has no account, now and then.
func (l *Ledger) begin(t Term, callers []Caller) {
	if l.accounts == nil {
		l.accounts = map[string]*account{shared: {weight: milli, seen: t.Now}}
	}
	half := t.Now * 2 / t.Window
	if passed := half - l.half; passed != 0 {
		before := l.sums
		l.sums, l.half = [3]sum{}, half
		if passed > 0 && passed < 3 { // else long ago, or the clock was set back
			copy(l.sums[:], before[passed:])
		}
		l.find(t)
	}
	l.open = l.open[:0]
	if slices.ContainsFunc(callers, func(c Caller) bool { return l.accounts[c.ID] == nil }) {
		l.makeRoom(t)
	}
	for i := range callers {
		l.admit(t, &callers[i])
	}
}

// admit opens the account of a caller: what it reported, what it wants, and what credit has come.
func (l *Ledger) admit(t Term, caller *Caller) {
	a := l.accounts[caller.ID]
	if a == nil {
		a = l.accounts[shared]
		if l.count < MaxAccounts {
			l.count++
			l.accounts[caller.ID] = &account{weight: caller.Weight, seen: t.Now}
			l.find(t)
		}
	}
	a.unmet = min(a.unmet+2*caller.Unmet, most)
	if since := t.Now - a.stated; since < 0 || since*statements >= t.Window || a.weight != caller.Weight {
		l.state(t, a, caller)
	}
	a.e = l.part(t, a)
	rate := a.e
	if rate == 0 {
		rate = float64(t.Share)
	}
	gain := math.Floor(rate * micro * float64(max(t.Now-a.seen, 0)) / float64(t.Window))
	a.now, a.filled = int64(min(float64(a.credit), full(rate))), a.seen
	if gain >= grain || t.Now < a.seen {
		a.now, a.filled = int64(min(float64(a.credit)+gain, full(rate))), t.Now
	}
	a.refused, a.unserved = 0, 0
	l.open = append(l.open, a)
}

// state has an account say what it wants: what it used, was denied and waits for, or, if callers
// waited for a part f of their time, use / (1 - f): who waits asks for nothing else meanwhile. The
// ask under way is not in it, so that on average it is what is wanted and not one ask more. Use has
// to back it, so that overstating gains nothing. A heavy account that stays so in the half window
// of its last statement counts as before: the sums have its weight only.
func (l *Ledger) state(t Term, a *account, caller *Caller) {
	kept := float64(t.Window) / float64(t.Window+2*max(t.Now-a.stated, 0))
	a.used, a.unmet = int64(float64(a.used)*kept), int64(float64(a.unmet)*kept)
	a.waited = int64(float64(a.waited) * kept)
	if caller.Waiting > 0 {
		a.waited += int64(milli * (1 - kept))
	}
	unhindered := int64(float64(a.used) * milli / float64(milli+1-a.waited))
	backed := a.used*backedTimes + backedMore*milli
	claim := min(max(a.used+a.unmet+caller.Waiting*milli, unhindered), backed)
	if e := l.part(t, a); a.heavy > 0 && e > 0 && float64(claim) >= e*milli &&
		a.weight == caller.Weight && a.stated*2/t.Window == l.half {
		a.stated, a.claim = t.Now, claim
		return
	}
	l.recount(t, a, caller.Weight, claim, t.Now, 1, 0)
	if e := l.part(t, a); float64(claim) < e*milli || e == 0 && a.unmet == 0 {
		l.recount(t, a, caller.Weight, claim, t.Now, 0, 0)
	}
}

// recount has an account count otherwise in the sums, and finds the level.
func (l *Ledger) recount(t Term, a *account, weight, claim, stated, heavy, longer int64) {
	l.add(t, a, -1)
	a.weight, a.claim, a.stated, a.heavy, a.longer = weight, claim, stated, heavy, longer
	l.add(t, a, 1)
	l.find(t)
}

// add counts an account in the sum of the half window of its claim, or takes it out of that.
func (l *Ledger) add(t Term, a *account, sign float64) {
	i := a.stated*2/t.Window + a.longer - l.half + 1
	if i < 0 || i > 2 {
		return
	}
	if s := &l.sums[i]; a.heavy > 0 { // less than 0 where the clock was set back
		s.heavy = max(s.heavy+float64(sign*float64(a.weight)), 0)
	} else {
		s.light = max(s.light+float64(sign*float64(a.claim)), 0)
	}
}

// stay has an account that was refused count half a window longer: it is not silent, it does what
// it was told. A light one whose callers waited for most of its time, and that could have paid, is
// heavy until it states its claim again. It lacks permits and not credit, and use cannot show that.
func (l *Ledger) stay(t Term, a *account) {
	lacks := a.heavy == 0 && a.waited*2 > milli && a.refused > 0 &&
		float64(a.now) >= float64(a.refused)*micro
	heavy := a.heavy
	if lacks {
		heavy = 1
	}
	if a.longer == 0 || lacks {
		l.recount(t, a, a.weight, a.claim, a.stated, heavy, 1)
	}
}

// find sets the level: (share − what the light want) / (weight of the heavy). With any division
// into light and heavy it is no higher than the true one, and whoever wants its part or more finds
// that out when it next states its claim. So it climbs to the true level: Newton's iteration, one
// participant at a time.
func (l *Ledger) find(t Term) {
	light := l.sums[0].light + l.sums[1].light + l.sums[2].light
	heavy := l.sums[0].heavy + l.sums[1].heavy + l.sums[2].heavy
	spare := float64(t.Share)*milli - light
	l.level, l.alone = 0, 0
	if l.count < 2 || heavy == 0 && spare >= 0 {
		return
	}
	if light == 0 {
		l.alone = int64(heavy)
	}
	if heavy == 0 || spare <= 0 { // they stated their claims before there was a level
		spare, heavy = float64(t.Share)*milli, float64(l.count)*milli
	}
	l.level = int64(math.Floor(min(float64(spare*micro)/heavy, deepest)))
}

// part returns the permits a window that an account is entitled to: weight × level. 0: it need not
// be held back.
func (l *Ledger) part(t Term, a *account) float64 {
	if a.heavy > 0 && l.alone > 0 && l.alone <= a.weight {
		return 0
	}
	return min(float64(float64(a.weight)*float64(l.level))/(milli*micro), float64(t.Share))
}

// makeRoom drops accounts from a full ledger, at most once a window: those that were silent for a
// window, and those that want hardly anything. Else names that are kept alive could push all who
// come later into one account.
func (l *Ledger) makeRoom(t Term) {
	l.find(t)
	if since := t.Now - l.searched; l.count < MaxAccounts || since >= 0 && since < t.Window {
		return
	}
	l.searched = t.Now
	for id, a := range l.accounts {
		if id != shared &&
			(t.Now-a.stated > t.Window || float64(a.claim)*hardly*MaxAccounts < float64(t.Share)*milli) {
			l.add(t, a, -1)
			delete(l.accounts, id)
			l.count--
		}
	}
	l.find(t)
}

// depth is the most credit, in permits, of a participant entitled to e permits a window: little, so
// that bursts do not come back every window.
func depth(e float64) float64 { return max(depthLeast, depthPart*e, depthRoot*math.Sqrt(e)) }

// full is the depth in millionths of a permit.
func full(e float64) float64 { return math.Floor(depth(e) * micro) }

// headroom is how many permits are kept free for those who have all their credit left. A permit or
// two are too much of a small share.
func (t *Term) headroom() float64 {
	if kept := headroomPart * float64(t.Share); kept >= 2 {
		return kept
	}
	return 0
}

// allow returns how many asks of a group are granted out of left permits. The emptier the credit,
// the more must stay free. An ask for more than the account can ever hold goes through once it is
// full, or owes nothing and wants less than its part, and leaves a debt.
func (a *account) allow(t Term, ask Ask, left int64) int64 {
	fit := min(ask.Count, left/ask.Size)
	if a.e == 0 || fit == 0 {
		return fit
	}
	credit, kept := float64(a.now)/micro, t.headroom()
	slope := kept / depth(a.e)
	keep := math.Floor((float64(left) - kept + float64(slope*(credit+1))) / (1 + slope))
	count := math.Floor(min(credit, keep) / float64(ask.Size))
	if count < 1 && (float64(a.now) >= full(a.e) || a.heavy == 0 && a.now >= 0) {
		count = 1
	}
	return int64(max(0, min(float64(fit), count)))
}

// pay charges an account for permits.
func (a *account) pay(permits int64) {
	a.used = int64(min(float64(a.used)+float64(2*float64(permits)*milli), most))
	if a.e > 0 {
		a.now = int64(max(float64(a.now)-float64(float64(permits)*micro), -deepest))
		a.credit, a.seen = a.now, a.filled
	}
}

// Settle ends a call: it appends to dst after how many microseconds each participant should come
// back, 0: at once. free is what is left after the grants, next the number of microseconds until
// more comes back.
func (l *Ledger) Settle(dst []int64, t Term, free, next int64) []int64 {
	for _, a := range l.open {
		if a.unserved > 0 {
			l.stay(t, a)
		}
		dst = append(dst, a.hint(t, free, next))
	}
	return dst
}

// hint returns when a participant should come back: when its credit allows what it wants, and about
// when the permits are there. One that is not paced gets none: what is free, and when more will be,
// it learns exactly from elsewhere.
//
// A refused participant wants half of what its account can hold at once, so that a few calls bring
// much. A participant that got all it asked for, and would be refused now, is told when to come as
// if it had been. While nothing is free, a participant that wants its part comes when its credit
// has grown by as much, or is full. So they do not all come at one release.
func (a *account) hint(t Term, free, next int64) int64 {
	if a.e == 0 {
		return 0
	}
	window, share, deep := float64(t.Window), float64(max(t.Share, 1)), depth(a.e)
	credit, refused, unserved, want := float64(a.now)/micro, float64(a.refused), a.unserved, 1.0
	if unserved == 0 && a.heavy > 0 {
		if a.allow(t, Ask{Size: 1, Count: 1}, free) > 0 {
			return 0
		}
		refused, unserved = 1, 1
	}
	if unserved > 0 {
		want = max(1, min(refused, deep), min(unserved, math.Floor(deep/2)))
	}
	retry := max(float64(want-credit)*window/a.e, 0)
	if a.heavy > 0 && refused > float64(free) {
		retry = max(retry, min(deep-credit, max(1, share/wantPart))*window/a.e)
	}
	if unserved == 0 {
		return int64(math.Ceil(min(retry, window)))
	}
	need := refused - float64(free)
	if credit >= want {
		need += math.Ceil(t.headroom() * (1 - credit/deep))
	}
	if need > 0 {
		retry = max(retry, float64(next)+float64(need-1)*window/share)
	}
	return int64(math.Ceil(max(min(retry, window), window/leastPart)))
}

// Due opens the account of a participant that wants to book permits, and returns in how many
// microseconds its credit can pay for them: 0 if it can now. As for a take, a full account pays for
// more than it can hold. [Ledger.Charge] must follow. Of the reports only Waiting counts.
func (l *Ledger) Due(t Term, caller Caller, permits int64) int64 {
	caller.Unmet = 0
	l.begin(t, []Caller{caller})
	a := l.open[0]
	want := min(float64(permits)*micro, full(a.e))
	if a.e == 0 || float64(a.now) >= want || a.heavy == 0 && a.now >= 0 {
		return 0
	}
	return int64(math.Ceil(min((want-float64(a.now))*float64(t.Window)/(a.e*micro), most)))
}

// Charge ends what Due began: the participant has booked so many permits, 0: it was refused.
func (l *Ledger) Charge(t Term, permits int64) {
	if permits > 0 {
		l.open[0].pay(permits)
	} else {
		l.stay(t, l.open[0])
	}
}

// Restore gives credit back for permits that were not used. Below 0 they were used and not granted:
// credit pays for them.
func (l *Ledger) Restore(id string, permits int64) {
	a := l.accounts[id]
	if a == nil {
		a = l.accounts[shared]
	}
	if a != nil {
		a.used = int64(max(min(float64(a.used)-float64(2*float64(permits)*milli), most), 0))
		a.credit = int64(max(min(float64(a.credit)+float64(float64(permits)*micro), deepest), -deepest))
	}
}
