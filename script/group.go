package script

import (
	"strconv"
	"time"

	"github.com/shardlimit/shardlimit/fairness"
	"github.com/shardlimit/shardlimit/internal/columns"
)

// MaxGroups is the most groups one take may carry.
const MaxGroups = 32

// MaxCallers is the most participants that one take may ask for.
const MaxCallers = fairness.MaxCallers

// Group is Count asks of Size permits each, in order of arrival. Both run from 1 to [MaxPermits].
// Caller is the index in the request's Callers of the participant who asks; without callers it
// is 0.
type Group = fairness.Ask

// Caller is a participant of a take, and what it has to report.
type Caller = fairness.Caller

// Distribute is the rule by which free permits go to groups: in order, each group gets as many of
// its asks granted, whole, as what is left allows. It appends the number of asks granted to dst,
// one for each group, and returns the permits granted in all. It holds while nobody contends;
// script and client share it, so that a reply need only carry what was free. Sizes below 1
// are never granted.
func Distribute(dst []int64, free int64, groups []Group) (perGroup []int64, granted int64) {
	left := max(free, 0)
	for _, group := range groups {
		asks := int64(0)
		if group.Size > 0 {
			asks = max(min(group.Count, left/group.Size), 0)
		}
		dst = append(dst, asks)
		left -= asks * group.Size
	}
	return dst, max(free, 0) - left
}

// proposed appends what the script is told of the proposal: see packed_adopt.lua.
func (r *TakeRequest) proposed(args []string) []string {
	p, seen := r.Proposal, int64(0)
	if r.Seen {
		seen = 1
	}
	var room [64]byte
	terms := columns.Terms.Append(room[:0], 0, seen, p.lasts, r.known(), r.until(), p.held+1, int64(r.Fence), p.life)
	return append(args, p.layoutText, string(terms))
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

// known returns Known in microseconds, cut off where more of it changes nothing: a node that has
// been up for less than a quarantine lasts is then surely younger than the limit.
func (r *TakeRequest) known() int64 {
	return min(max(int64(r.Known/time.Microsecond), 0), r.Proposal.lasts+slack)
}

// until is the time of the node until which state may be created, us; 0: not at all.
func (r *Relied) until() int64 {
	if r.Deadline == 0 {
		return maxTime
	}
	return int64(max(r.Deadline, 0))
}

func number(n int64) string { return strconv.FormatInt(n, 10) }
