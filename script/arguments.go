package script

import (
	"time"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/columns"
)

// proposed appends what the script is told of the proposal: see packed_adopt.lua.
func (r *TakeRequest) proposed(args []string) []string {
	p, seen, known := r.Proposal, 0, r.known()
	if r.Seen {
		seen = 1
	}
	terms := p.termsTexts[seen]
	if known != enough(p.lasts) || r.Deadline != 0 || r.Fence != 0 {
		now := told{p, seen, known, int64(r.Deadline), int64(r.Fence)}
		if r.told != now {
			r.told, r.toldText = now, p.terms(seen, known, now.deadline, now.fence)
		}
		terms = r.toldText
	}
	return append(args, p.layoutText, terms)
}

func (r *TakeRequest) arguments(args []string) []string {
	return append(r.proposed(args), r.asks())
}

// asks is who wants what: see fair.lua. Who asks alone, or with few, often asks the same again.
func (r *TakeRequest) asks() string {
	var room [4 + 2*(13+13+3) + 16 + 7 + 2*16]byte // most requests have one or two groups, of one participant
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
	if string(text) != r.said {
		r.said = string(text)
	}
	return r.said
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

// told is what the text of the terms depends on. A request that is sent again and again need not
// allocate it.
type told struct {
	proposal               *Proposal
	seen                   int
	known, deadline, fence int64
}

// late reports whether the proposal creates no state at this time of the node, in microseconds.
func (r *TakeRequest) late(now int64) bool {
	return r.Proposal.epoch == 0 || r.Deadline < 0 || r.Deadline > 0 && clock.ServerTime(now) > r.Deadline
}

// fenced reports whether the call comes too late at this time of the node, in microseconds.
func (r *TakeRequest) fenced(now int64) bool { return r.Fence > 0 && clock.ServerTime(now) > r.Fence }
