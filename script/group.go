package script

import "strconv"

// MaxGroups is the most groups one take may carry.
const MaxGroups = 32

// Group is Count asks of Size permits each, in order of arrival. Both run from 1 to [MaxPermits].
type Group struct {
	Size, Count int64
}

// Distribute is the rule by which free permits go to groups: in order, each group gets as many of its asks granted, whole, as what is left
// allows. It appends the number of asks granted to dst, one for each group, and returns the permits granted in all. Script, twin and
// client share it, so that a reply need only carry what was free. Sizes below 1 are never granted.
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

func checkGroups(groups []Group) error {
	if len(groups) > MaxGroups {
		return invalid("%d groups", len(groups))
	}
	for _, group := range groups {
		if group.Size < 1 || group.Size > MaxPermits || group.Count < 1 || group.Count > MaxPermits {
			return invalid("a group of %d asks of %d permits", group.Count, group.Size)
		}
	}
	return nil
}

// smallNumbers saves an allocation for each of the numbers that make up most requests.
var smallNumbers = func() (texts [1025]string) {
	for i := range texts {
		texts[i] = strconv.Itoa(i)
	}
	return texts
}()

func number(n int64) string {
	if n >= 0 && n < int64(len(smallNumbers)) {
		return smallNumbers[n]
	}
	return strconv.FormatInt(n, 10)
}
