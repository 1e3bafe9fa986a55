// Package ledger is the Go form of the scripts that pace participants under contention, for tests
// to compare the scripts with: fair*.lua in package script.
package ledger

import (
	"maps"
	"math"

	"github.com/shardlimit/shardlimit/fairness"
	"github.com/shardlimit/shardlimit/internal/columns"
)

const (
	// header is the field of what is no account.
	header = "ledger"
	// shared is the id of the account of those who have none of their own: names seen for the first
	// time, and names beyond [fairness.MaxAccounts].
	shared = "****************"
)

// The numbers of the rule, as fairness.Constants has them.
const (
	milli        = 1000
	statements   = 16
	backedTimes  = 2
	backedMore   = 4
	depthPart    = 0.15
	depthRoot    = 1.5
	depthLeast   = 2
	headroomPart = 0.008
	wantPart     = 64
	largePart    = 8
	leastPart    = 1024
	brief        = 100_000
	most         = 1_000_000_000_000_000
)

// Term is the instant of a call and the limit in force, in the limit's own terms.
type Term struct {
	Now    int64 // us, never decreasing in normal use; steps back are survived
	Window int64 // us, at least 1000
	Share  int64 // permits per window by which participants are paced: the share, or what that rises to
}

// Ledger keeps the accounts of the participants of one shard under contention. Each account paces
// its participant by a bucket of credit, which fills at weight × level. The log of the shard
// decides how much may be granted at all: a ledger that is wrong harms fairness only.
//
// A call is [Ledger.Grant], or [Ledger.Due] and what that returns, or [Ledger.Restore]. The zero
// value is an empty ledger; not safe for concurrent use. A call looks at the accounts of its
// callers only. It looks at the sums only for a booking, or where one of them is new, states its
// claim, is not held back, or is refused and counts longer or is owed something.
//
// A Ledger holds integers. Lua and Go agree bit for bit as long as Go does not fuse multiplications
// and additions: hence the conversions of products.
type Ledger struct {
	Booked   bool                // something is booked ahead, at the next Grant
	accounts map[string]*account // nil: the ledger is empty
	count    int64               // accounts, without the shared one
	half     int64               // the half window of the last look at the sums, counted from 0
	opened   int64               // when the ledger was, us
	owed     int64               // to who wants single permits, thousandths of a permit a window
	sums     [3]sum              // of the half window before, of that one and of the next
}

// sum is what accounts add to the level whose claims are of one half window.
type sum struct {
	light float64 // what those want who want less than their part, thousandths of a permit a window
	heavy float64 // weight of all others, thousandths
}

// account is what is known of one participant. used, unmet and waited are averages of the time when
// its claim was stated, in which the last half window counts most.
type account struct {
	weight int64 // thousandths
	stated int64 // when its claim was last stated, us
	claim  int64 // what it wants, as far as backed by use, thousandths of a permit a window
	waited int64 // part of its time in which its callers waited, thousandths
	rate   int64 // at which it is paced, thousandths of a permit a window; 0: it is not held back
	heavy  int64 // 1: it wants its part or more
	longer int64 // 1: its claim counts half a window longer
	unmet  int64 // what it was denied for good, thousandths of a permit a window
	used   int64 // thousandths of a permit a window
	empty  int64 // when its credit was nothing, or will be, us
}

// Clone returns a copy that shares nothing with l.
func (l *Ledger) Clone() Ledger {
	twin := *l
	twin.accounts = maps.Clone(l.accounts)
	for id, a := range twin.accounts {
		own := *a
		twin.accounts[id] = &own
	}
	return twin
}

// Clear empties the ledger.
func (l *Ledger) Clear() { *l = Ledger{} }

// Grant distributes free permits among the asks, caller by caller. It appends to grants how many of
// each ask were granted, whole, and to retry after how many microseconds each caller should come
// back, 0: at once. It returns the permits granted in all and the size of the first ask that was
// refused, 0 if none was. next is the number of microseconds until more permits are free. Callers
// and asks must be valid, and every ask's caller must exist.
func (l *Ledger) Grant(grants, retry []int64, t Term, free, next int64, callers []fairness.Caller,
	asks []fairness.Ask) (perAsk, perCaller []int64, granted, refused int64) {
	left, from, refusedAsk, wants := free, len(grants), len(asks), int64(1)
	if len(asks) > 0 {
		wants = asks[0].Size
	}
	grants = append(grants, make([]int64, len(asks))...)
	for i := range callers {
		a := l.open(t, &callers[i], wants)
		p := a.purse(t)
		first := int64(0)
		for n, ask := range asks {
			if ask.Caller != i {
				continue
			}
			got := p.allow(t, ask, left)
			grants[from+n], left = got, left-got*ask.Size
			if got > 0 {
				p.spend(t, got*ask.Size)
			}
			if got < ask.Count {
				p.unserved += float64(ask.Count-got) * float64(ask.Size)
				if first == 0 {
					first = ask.Size
				}
				if n < refusedAsk {
					refused, refusedAsk = ask.Size, n
				}
			}
		}
		us := p.hint(t, left, next, first, callers[i].Waiting)
		retry = append(retry, us)
		if first > 0 {
			if left < 1 {
				us = max(us, next)
			}
			l.stay(t, &p, callers[i].ID, first, us)
		}
	}
	return grants, retry, free - left, refused
}

// open returns the account of a caller, which states its claim at most sixteen times a window. One
// that was not held back asks whether it still need not be. A name that has no account is served
// from the shared one, and gets one for the next time.
func (l *Ledger) open(t Term, caller *fairness.Caller, wants int64) *account {
	a := l.accounts[caller.ID]
	if a == nil {
		l.begin(t, caller.ID)
		if l.count < fairness.MaxAccounts {
			l.count++
			l.accounts[caller.ID] = &account{weight: caller.Weight, empty: max(t.Now-l.turn(t, wants), 0)}
		}
		a = l.accounts[shared]
	}
	states := t.Now < a.stated || (t.Now-a.stated)*statements >= t.Window || a.weight != caller.Weight
	if states || a.rate == 0 {
		l.begin(t, caller.ID)
	}
	a.unmet = min(a.unmet+2*caller.Unmet, most)
	if states {
		l.state(t, a, caller)
	} else if a.rate == 0 {
		a.rate = l.rate(t, a)
	}
	return a
}

// turn returns for how long the last account seems to have gathered credit when it is new, and
// wants so many permits. Where all cannot have as many in a window, those of the first window are
// so served in turn: else nobody could pay for many windows.
func (l *Ledger) turn(t Term, wants int64) int64 {
	if l.count*wants <= t.Share || t.Now-l.opened >= t.Window {
		return 0
	}
	us := math.Floor(float64(l.count*wants) * float64(t.Window) / float64(max(t.Share, 1)))
	return int64(min(us, float64(t.Now))) // else it might be no int64
}

// begin brings the sums to the half window under way. Then whoever was silent for a window
// gives way if there is no room.
func (l *Ledger) begin(t Term, asks string) {
	if l.accounts == nil {
		l.accounts, l.opened = map[string]*account{shared: {weight: milli, empty: t.Now}}, t.Now
	}
	half := t.Now * 2 / t.Window
	if half == l.half {
		return
	}
	before, passed := l.sums, half-l.half
	l.half, l.sums = half, [3]sum{}
	l.owed = int64(float64(l.owed) / math.Exp2(float64(max(passed, 0))))
	if passed == 1 || passed == 2 { // else long ago, or the clock was set back
		copy(l.sums[:], before[passed:])
	}
	if l.count < fairness.MaxAccounts {
		return
	}
	for id, a := range l.accounts {
		if id != shared && id != asks && t.Now-a.stated > t.Window {
			delete(l.accounts, id)
			l.count--
		}
	}
}

// state has an account say what it wants: what it used, was denied and waits for, or, if callers
// waited for a part f of their time, use / (1 - f): who waits asks for nothing else meanwhile. The
// ask under way is not in it, so that on average it is what is wanted and not one ask more. Use has
// to back it, so that overstating gains nothing. It is heavy if it wants what it had as such, or
// more than there is: else one that is left alone would be paced as if all were there.
func (l *Ledger) state(t Term, a *account, caller *fairness.Caller) {
	kept := float64(t.Window) / float64(t.Window+2*max(t.Now-a.stated, 0))
	a.used, a.unmet = int64(float64(a.used)*kept), int64(float64(a.unmet)*kept)
	a.waited = int64(float64(a.waited) * kept)
	if caller.Waiting > 0 {
		a.waited += int64(milli * (1 - kept))
	}
	unhindered := int64(float64(a.used) * milli / float64(milli+1-a.waited))
	claim := min(max(a.used+a.unmet+caller.Waiting*milli, unhindered), a.used*backedTimes+backedMore*milli)
	before, credit := a.rate, a.purse(t).credit
	l.add(t, a, -1)
	a.weight, a.stated, a.claim, a.heavy, a.longer = caller.Weight, t.Now, claim, 1, 0
	l.add(t, a, 1)
	a.rate = l.rate(t, a)
	if claim < a.rate || a.rate == 0 && a.unmet == 0 && claim <= t.Share*milli {
		l.add(t, a, -1)
		a.heavy = 0
		l.add(t, a, 1)
		a.rate = l.rate(t, a)
	}
	if before > 0 && a.rate > 0 && a.rate != before { // it keeps its credit
		a.empty = emptied(t, a.rate, credit)
	}
}

// stay is for an account that was refused, and is told to come in so many us, or that has what it
// booked then. If that is after its claim ends, it counts half a window longer: it is not silent,
// it does what it was told. A light one whose callers waited for most of its time is heavy until it
// states its claim again if it could have paid, or never could: it lacks permits and not credit,
// and use cannot show that. An ask for much of the share is no such sign: it lacks room as well.
//
// Callers that wait for single permits do not book. A participant that is refused one beside
// bookings, and could pay for it, is owed what it lacks of its part. Collections of much of the
// share are not owed: they are booked.
func (l *Ledger) stay(t Term, p *purse, id string, permits, us int64) {
	a, n := p.account, float64(permits)
	lacks := a.heavy == 0 && a.waited*2 > milli && (p.credit >= n || n > p.depth && permits*largePart <= t.Share)
	short := int64(0)
	if l.Booked && permits == 1 && p.credit >= 1 && p.unserved*largePart <= float64(t.Share) {
		short = a.rate - a.used
	}
	longer := lacks || a.longer == 0 && (t.Now+us)*2 >= (a.stated*2/t.Window+2)*t.Window
	if longer || short > 0 {
		l.begin(t, id)
		l.owed = max(l.owed, short)
	}
	if !longer {
		return
	}
	l.add(t, a, -1)
	if a.longer = 1; lacks {
		a.heavy = 1
	}
	l.add(t, a, 1)
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

// rate returns at which rate an account is paced, 0: it need not be held back. It is weight ×
// level, and the level is (share − what the light want) / (weight of the heavy). With any division
// into light and heavy that is no higher than the true one, and whoever wants its part or more
// finds that out when it next states its claim. So it climbs to the true level: Newton's iteration,
// one participant at a time.
func (l *Ledger) rate(t Term, a *account) int64 {
	light, weight := l.sums[0].light+l.sums[1].light+l.sums[2].light, float64(a.weight)
	heavy := l.sums[0].heavy + l.sums[1].heavy + l.sums[2].heavy
	all := float64(t.Share) * milli
	spare := all - light
	if l.count < 2 || heavy == 0 && spare >= 0 || light == 0 && a.heavy > 0 && heavy <= weight {
		return 0
	}
	if heavy == 0 || spare <= 0 { // they stated their claims before there was a level
		spare, heavy = all, float64(l.count)*milli
	}
	return int64(max(1, math.Floor(min(float64(weight*spare)/heavy, all))))
}

// purse is an account in a call.
type purse struct {
	*account
	part     float64 // permits a window at which it is paced; 0: it is not held back
	depth    float64 // the most credit, in permits
	credit   float64 // permits; below 0: a debt
	unserved float64 // permits that it asked for and did not get
}

func (a *account) purse(t Term) purse {
	e := float64(a.rate) / milli
	p := purse{account: a, part: e, depth: depth(e)}
	p.credit = min(float64(float64(t.Now-a.empty)*e)/float64(t.Window), p.depth)
	return p
}

// depth is the most credit of a participant entitled to e permits a window: little, so that bursts
// do not come back every window.
func depth(e float64) float64 { return max(depthLeast, depthPart*e, depthRoot*math.Sqrt(e)) }

// largeBooking divides a share: bookings of so large a part leave what is owed.
const largeBooking = 16

// headroom is how many permits are kept free for those who have all their credit left. A permit or
// two are too much of a small share.
func headroom(t Term) float64 {
	if kept := headroomPart * float64(t.Share); kept >= 2 {
		return kept
	}
	return 0
}

// may returns how many permits the credit allows out of left ones. The emptier the credit, the more
// must stay free.
func (p *purse) may(t Term, left int64) float64 {
	kept := headroom(t)
	slope := kept / p.depth
	return math.Floor(min(p.credit, (float64(left)-kept+float64(slope*(p.credit+1)))/(1+slope)))
}

// beyond reports whether an ask goes through that is for more than the credit, and leaves a debt:
// once the account is full, or owes nothing and wants less than its part.
func (p *purse) beyond() bool { return p.credit >= p.depth || p.heavy == 0 && p.credit >= 0 }

// allow returns how many asks of a group are granted out of left permits.
func (p *purse) allow(t Term, ask fairness.Ask, left int64) int64 {
	fit := min(ask.Count, left/ask.Size)
	if p.part == 0 || fit == 0 {
		return fit
	}
	count := math.Floor(p.may(t, left) / float64(ask.Size))
	if count < 1 && p.beyond() {
		count = 1
	}
	return int64(max(0, min(float64(fit), count)))
}

// spend charges an account for permits.
func (p *purse) spend(t Term, permits int64) {
	p.used = int64(max(0, min(float64(p.used)+float64(2*float64(permits)*milli), most)))
	if p.part > 0 {
		p.credit -= float64(permits)
		p.empty = emptied(t, p.rate, p.credit)
	} else if permits < 0 { // what it owes is not known in permits
		p.empty = min(p.empty, t.Now)
	}
}

// emptied returns when an account is empty, or was, that has so much credit now.
func emptied(t Term, rate int64, credit float64) int64 {
	us := math.Floor(float64(credit*milli)*float64(t.Window)/float64(rate) + 0.5)
	return max(t.Now-int64(max(us, -most)), 0)
}

// hint returns when a participant should come back: when its credit allows what it wants, and about
// when the permits are there. One that is not paced gets none: what is free, and when more will be,
// it learns exactly from elsewhere.
//
// A refused participant wants half of what its account can hold at once, so that a few calls bring
// much. A participant that got all it asked for, and would be refused now, is told when to come as
// if it had been. While nothing is free, a participant that wants its part comes when its credit
// has grown by as much, or is full: so they do not all come at one release. One whose callers wait
// does that, too, while nothing is free beside the headroom, but no longer than a tenth of a
// second: others may leave.
func (p *purse) hint(t Term, left, next, refused, waiting int64) int64 {
	if p.part == 0 {
		return 0
	}
	window, share, want, unserved := float64(t.Window), float64(max(t.Share, 1)), 1.0, p.unserved
	if unserved == 0 && p.heavy > 0 {
		if p.allow(t, fairness.Ask{Size: 1, Count: 1}, left) > 0 {
			return 0
		}
		refused, unserved = 1, 1
	}
	if unserved > 0 {
		want = max(1, min(float64(refused), p.depth), min(unserved, math.Floor(p.depth/2)))
	}
	retry := max(float64(want-p.credit)*window/p.part, 0)
	spared := math.Ceil(headroom(t) * (1 - p.credit/p.depth))
	grown := min(p.depth-p.credit, max(1, share/wantPart)) * window / p.part
	switch {
	case p.heavy == 0:
	case refused > left:
		retry = max(retry, min(grown, most))
	case waiting > 0 && float64(refused)+spared > float64(left):
		retry = max(retry, min(grown, brief))
	}
	if p.unserved > 0 {
		need := float64(refused - left)
		if p.credit >= want {
			need += spared
		}
		if need > 0 {
			retry = max(retry, float64(next)+float64(need-1)*window/share)
		}
		retry = max(retry, window/leastPart)
	}
	return int64(math.Ceil(min(retry, window)))
}

// Due opens the account of a participant that wants to book permits. It returns in how many
// microseconds its credit can pay for them, 0 if it can now; how many it must leave to those who
// want single ones; and what is to be called with how many were booked, 0 if none, and in how many
// microseconds they come, or it should. As for a take, a full account pays for more than it can
// hold. Of the reports only Waiting counts.
func (l *Ledger) Due(t Term, caller fairness.Caller,
	permits int64) (us, kept int64, charge func(booked, in int64)) {
	caller.Unmet = 0
	p := l.open(t, &caller, permits).purse(t)
	want := min(float64(permits), p.depth)
	if p.part > 0 && p.credit < want && !p.beyond() {
		us = int64(math.Ceil(min(float64(want-p.credit)*float64(t.Window)/p.part, most)))
	}
	l.begin(t, caller.ID)
	if permits > 1 && permits*largeBooking >= t.Share {
		kept = l.owed / milli
	}
	return us, kept, func(booked, in int64) {
		if booked > 0 {
			p.spend(t, booked)
		}
		l.Booked = false // it books
		l.stay(t, &p, caller.ID, permits, in)
	}
}

// Restore gives credit back for permits that were not used. Below 0 they were used and not granted:
// credit pays for them.
func (l *Ledger) Restore(t Term, id string, permits int64) {
	a := l.accounts[id]
	if a == nil {
		a = l.accounts[shared]
	}
	if a != nil {
		p := a.purse(t)
		p.spend(t, -permits)
	}
}

// Fields returns the ledger as the hash that Redis keeps, nil if it is empty.
func (l *Ledger) Fields() map[string]string {
	if l.accounts == nil {
		return nil
	}
	n := &l.sums
	fields := map[string]string{header: string(columns.Ledger.Append([]byte(columns.LedgerKind), 0, l.count, l.half,
		l.opened, l.owed, int64(n[0].light), int64(n[0].heavy), int64(n[1].light), int64(n[1].heavy),
		int64(n[2].light), int64(n[2].heavy)))}
	for id, a := range l.accounts {
		fields[id] = string(columns.Account.Append(nil, 0, a.weight, a.stated, a.claim, a.waited, a.rate, a.heavy,
			a.longer, a.unmet, a.used, a.empty))
	}
	return fields
}
