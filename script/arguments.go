package script

import (
	"time"

	"github.com/shardlimit/shardlimit/internal/columns"
)

// proposed appends what the script is told of the proposal: see packed_adopt.lua.
func (r *TakeRequest) proposed(args []string) []string {
	p, seen := r.Proposal, int64(0)
	if r.Seen {
		seen = 1
	}
	var room [128]byte
	terms := columns.Terms.Append(room[:0], 0, seen, p.lasts, r.known(), int64(r.Deadline), p.held, int64(r.Fence))
	return append(args, p.layoutText, string(append(terms, p.lifeText...)))
}

func (r *TakeRequest) arguments(args []string) []string {
	return append(r.proposed(args), r.asks())
}

// asks is who wants what: see fair.lua.
func (r *TakeRequest) asks() string {
	var room [2 + 2*(6+6+2) + 16 + 4 + 2*7]byte // most requests have one or two groups, of one participant
	reports := r.reports()
	text := columns.Asks.Append(room[:0], 0, int64(len(r.Groups)), reports)
	for _, group := range r.Groups {
		text = columns.Group.Append(text, 0, group.Size, group.Count, int64(group.Caller))
	}
	for i := range r.Callers {
		caller := &r.Callers[i]
		text = columns.Caller.Append(append(text, caller.ID...), 1, caller.Weight)
		if reports == 1 {
			text = columns.Caller.Append(text, 2, caller.Unmet, caller.Waiting)
		}
	}
	return string(text)
}

// reports is 1 if any participant has demand that is not in the groups, else 0.
func (r *TakeRequest) reports() int64 {
	for i := range r.Callers {
		if r.Callers[i].Unmet > 0 || r.Callers[i].Waiting > 0 {
			return 1
		}
	}
	return 0
}

// known returns Known in microseconds, cut off where more of it changes nothing.
func (r *TakeRequest) known() int64 {
	return min(max(int64(r.Known/time.Microsecond), 0), enough(r.Proposal.lasts))
}
