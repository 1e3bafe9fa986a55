package script

import "github.com/shardlimit/shardlimit/internal/limittest/ledger"

// fair is what a shard's twin knows of contention, under any algorithm: the twin of fair.lua.
type fair struct {
	// when somebody was last refused or reported unmet demand, shard time in microseconds; 0:
	// nobody contends
	contended int64
	ledger    ledger.Ledger
}

// contends reports whether the ledger is in use for a caller.
func (f *fair) contends(t ledger.Term) bool {
	return f.contended > 0 && f.contended+2*t.Window > t.Now
}

// grant distributes free permits and notes that participants contend, when they begin and then
// eight times a window, by a call that is granted something or finds nothing free. Contention ends
// after two windows in which nobody had reason to. It returns the size of the first ask that is
// refused, 0 if none is. next is how many us it takes until more permits are free.
func (f *fair) grant(t ledger.Term, free, next int64, open bool, r *TakeRequest) (reply TakeReply, refused int64) {
	if !f.contends(t) {
		f.contended = 0
	}
	reply = TakeReply{Before: free, Contended: f.contended > 0 && open && len(r.Callers) > 0}
	if reply.Contended {
		var room [MaxCallers]int64
		var retry []int64
		reply.Grants, retry, reply.Granted, refused = f.ledger.Grant(r.Room[:0], room[:0], t, free, next,
			r.Callers, r.Groups)
		reply.Callers = r.CallerRoom[:0]
		for _, us := range retry {
			reply.Callers = append(reply.Callers, duration(us))
		}
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
		} else if since := t.Now - f.contended; (since < 0 || since*8 > t.Window) && (reply.Granted > 0 || free < 1) {
			f.contended = t.Now
		}
	}
	return reply, refused
}

// due returns the microseconds until the participant's credit can pay for a booking, and how many
// permits are kept from that. Then charge is to be called as [ledger.Ledger.Due] says. It is the
// twin of fair_charge.lua.
func (f *fair) due(t ledger.Term, open bool, r *ReserveRequest) (pay, kept int64, charge func(granted, us int64)) {
	if !open || r.Caller.ID == "" || !f.contends(t) {
		return 0, 0, func(int64, int64) {}
	}
	return f.ledger.Due(t, r.Caller, r.Permits)
}

// restore makes up for permits that were not used, or were beyond what was granted if they are
// below 0. It is the twin of fair_used.lua.
func (f *fair) restore(t ledger.Term, who *Caller, unused int64) {
	if unused != 0 && who.ID != "" && f.contends(t) {
		f.ledger.Restore(t, who.ID, unused)
	}
}
