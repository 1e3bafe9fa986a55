package script

import (
	"time"

	"github.com/shardlimit/shardlimit/fairness"
)

// fair is what a shard's twin knows of contention, under any algorithm: the twin of fair.lua and
// fair_settle.lua.
type fair struct {
	// when somebody was last refused or reported unmet demand, shard time in microseconds; 0:
	// nobody contends
	contended int64
	ledger    fairness.Ledger
}

// paced is the term of a ledger whose participants are paced by the share, or by what that rises
// to. While a share rises, permits leave the window elsewhere as fast as if it were all here, and
// come here at once. It is the twin of fair_pace.lua.
func paced(now, window, share, target int64) fairness.Term {
	return fairness.Term{Now: now, Window: window, Share: max(share, target), Falling: share > target}
}

// grant distributes free permits and notes that participants contend, when they begin and then
// eight times a window; that ends after two windows in which nobody had reason to. It returns the
// size of the first ask that is refused, 0 if none is.
func (f *fair) grant(t fairness.Term, free int64, open bool, r *TakeRequest) (reply TakeReply, refused int64) {
	if f.contended > 0 && f.contended+2*t.Window <= t.Now {
		f.contended = 0
	}
	reply = TakeReply{Before: free, Contended: f.contended > 0 && open && len(r.Callers) > 0}
	if reply.Contended {
		reply.Grants, reply.Granted, refused = f.ledger.Grant(r.Room[:0], t, free, r.Callers, r.Groups)
	} else {
		reply.Grants, reply.Granted, refused = distribute(r.Room[:0], free, r.Groups)
	}
	if open && len(r.Callers) > 0 && (refused > 0 || r.reports() > 0) {
		if !reply.Contended {
			f.ledger.Clear()
			f.contended = t.Now
		} else if since := t.Now - f.contended; since < 0 || since*8 > t.Window {
			f.contended = t.Now
		}
	}
	return reply, refused
}

// settle tells the participants when to come back.
func (f *fair) settle(t fairness.Term, r *TakeRequest, reply *TakeReply) {
	if !reply.Contended {
		return
	}
	var room [MaxCallers]fairness.Hint
	reply.Callers = r.CallerRoom[:0]
	for _, hint := range f.ledger.Settle(room[:0], t, reply.Free, int64(reply.Next/time.Microsecond)) {
		reply.Callers = append(reply.Callers, CallerReply{Slot: hint.Slot, Retry: duration(hint.Retry)})
	}
}

// charges reports whether what this participant books or gives back concerns the ledger.
func (f *fair) charges(t fairness.Term, who *Caller) bool {
	return who.ID != "" && f.contended > 0 && f.contended+2*t.Window > t.Now
}

// due returns the microseconds until the participant's credit can pay for a booking; then charge
// must follow, with what was granted and when it is due, or can be paid. It is the twin of
// fair_charge.lua.
func (f *fair) due(t fairness.Term, open bool, r *ReserveRequest) (pay int64, charge func(granted, date int64)) {
	if !open || !f.charges(t, &r.Caller) {
		return 0, func(int64, int64) {}
	}
	pay, _ = f.ledger.Due(t, r.Caller, r.Permits, 0)
	return pay, func(granted, date int64) { f.ledger.Charge(t, granted, date) }
}

// restore makes up for permits that were not used, or were beyond what was granted if they are
// below 0. It is the twin of fair_used.lua.
func (f *fair) restore(t fairness.Term, who *Caller, unused int64) {
	if unused != 0 && f.charges(t, who) {
		f.ledger.Restore(t, who.ID, who.Slot, unused)
	}
}

// distribute returns what Distribute does, and the size of the first ask that is refused, 0 if none
// is.
func distribute(dst []int64, free int64, groups []Group) (perGroup []int64, granted, refused int64) {
	from := len(dst)
	perGroup, granted = Distribute(dst, free, groups)
	for i, group := range groups {
		if perGroup[from+i] < group.Count {
			return perGroup, granted, group.Size
		}
	}
	return perGroup, granted, 0
}
