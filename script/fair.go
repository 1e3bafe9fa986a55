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
// come here at once. It is the twin of fair_header.lua.
func paced(now, window, share, target int64) fairness.Term {
	return fairness.Term{Now: now, Window: window, Share: max(share, target)}
}

// contends reports whether the ledger is in use for a caller.
func (f *fair) contends(t fairness.Term) bool {
	return f.contended > 0 && f.contended+2*t.Window > t.Now
}

// grant distributes free permits and notes that participants contend, when they begin and then
// eight times a window; that ends after two windows in which nobody had reason to. It returns the
// size of the first ask that is refused, 0 if none is.
func (f *fair) grant(t fairness.Term, free int64, open bool, r *TakeRequest) (reply TakeReply, refused int64) {
	if !f.contends(t) {
		f.contended = 0
	}
	reply = TakeReply{Before: free, Contended: f.contended > 0 && open && len(r.Callers) > 0}
	if reply.Contended {
		reply.Grants, reply.Granted, refused = f.ledger.Grant(r.Room[:0], t, free, r.Callers, r.Groups)
	} else {
		reply.Grants, reply.Granted = Distribute(r.Room[:0], free, r.Groups)
		for i, group := range r.Groups {
			if reply.Grants[i] < group.Count {
				refused = group.Size
				break
			}
		}
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
	var room [MaxCallers]int64
	reply.Callers = r.CallerRoom[:0]
	for _, retry := range f.ledger.Settle(room[:0], t, reply.Free, int64(reply.Next/time.Microsecond)) {
		reply.Callers = append(reply.Callers, duration(retry))
	}
}

// due returns the microseconds until the participant's credit can pay for a booking; then charge
// must follow, with what was granted. It is the twin of fair_charge.lua.
func (f *fair) due(t fairness.Term, open bool, r *ReserveRequest) (pay int64, charge func(granted int64)) {
	if !open || r.Caller.ID == "" || !f.contends(t) {
		return 0, func(int64) {}
	}
	return f.ledger.Due(t, r.Caller, r.Permits), func(granted int64) { f.ledger.Charge(t, granted) }
}

// restore makes up for permits that were not used, or were beyond what was granted if they are
// below 0. It is the twin of fair_used.lua.
func (f *fair) restore(t fairness.Term, who *Caller, unused int64) {
	if unused != 0 && who.ID != "" && f.contends(t) {
		f.ledger.Restore(who.ID, unused)
	}
}
