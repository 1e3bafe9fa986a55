package script

import (
	"strconv"

	"github.com/shardlimit/shardlimit/fairness"
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

func (r *TakeRequest) check(s ShardRef) error {
	if r == nil {
		return invalid("no request")
	}
	if err := r.Relied.check(s, r.Proposal); err != nil {
		return err
	}
	if len(r.Groups) > MaxGroups || len(r.Callers) > MaxCallers {
		return invalid("%d groups on %d callers", len(r.Groups), len(r.Callers))
	}
	for i := range r.Callers {
		if !r.Callers[i].Valid() {
			return invalid("a caller %+v", r.Callers[i])
		}
	}
	for _, group := range r.Groups {
		if group.Caller < 0 || group.Caller >= max(len(r.Callers), 1) {
			return invalid("a group on caller %d of %d", group.Caller, len(r.Callers))
		}
		if group.Size < 1 || group.Size > MaxPermits || group.Count < 1 || group.Count > MaxPermits {
			return invalid("a group of %d asks of %d permits", group.Count, group.Size)
		}
	}
	return nil
}

func number(n int64) string { return strconv.FormatInt(n, 10) }
