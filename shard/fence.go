package shard

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

const maxIncarnation = 64 // bytes

// Fence says that the shards of a layout hold by the membership of the nodes. A process asks a live
// shard for permits only while a majority confirms that its node is in the incarnation that the
// shard is of. So what a lost node had can be given to others, although nobody can ask it: its
// incarnation is over. When the node is back it begins another one, with other shards.
type Fence struct {
	// Lost are the nodes, in order, from which shares were taken over, and that get some again when
	// they are back.
	Lost []string `json:"lost,omitempty"`
}

func (f *Fence) validate() error {
	if f == nil {
		return nil
	}
	if !slices.IsSorted(f.Lost) || len(slices.Compact(slices.Clone(f.Lost))) != len(f.Lost) || len(f.Lost) > MaxLive ||
		slices.ContainsFunc(f.Lost, func(n string) bool { return n == "" || !text(n) }) {
		return fmt.Errorf("fence: %.200q are not names in order", strings.Join(f.Lost, ","))
	}
	return nil
}

// incarnations reports whether name can be an incarnation: letters, digits and dashes, as it stands
// in keys.
func incarnations(name string) bool {
	return len(name) <= maxIncarnation && !strings.ContainsFunc(name, func(r rune) bool {
		return r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z')
	})
}

// believed is longer than a process goes on granting under a layout that was replaced.
const believed = 16 * time.Second

const (
	// maxLasts bounds for how long what was granted may matter.
	maxLasts = 100 * 366 * 24 * time.Hour
	// maxLeft is longer than anything is waited for.
	maxLeft = maxLasts + maxLasts/50 + believed
)

// Lasts returns how long a grant can still count: it may be dated a window ahead, and counts for a
// window after that. Where a burst takes longer than a window to come, that counts in place of the
// window.
func (s Spec) Lasts() time.Duration {
	windows := 2 * max(1, float64(s.Burst)/float64(s.Permits))
	return time.Duration(min(windows*float64(s.Window), float64(maxLasts))) + s.Lease
}

// GrantsLast returns how long what any shard of l granted can still count, also before, under
// another layout.
func (l Layout) GrantsLast() time.Duration {
	lasts := max(l.Lasts, l.Spec.Lasts())
	if l.Keys != nil {
		lasts = max(lasts, l.Keys.Longest)
	}
	return lasts
}

// counting returns l with what an earlier layout granted that it follows, and with what that one,
// held for so long, counts still. Grants that matter no longer than those of l itself change
// nothing.
func counting(l, earlier Layout, held time.Duration) Layout {
	own := l.Spec.Lasts()
	count := func(lasts, left time.Duration) {
		if lasts > own {
			l.Lasts, l.Left = max(l.Lasts, lasts), max(l.Left, left)
		}
	}
	lasts := earlier.Spec.Lasts()
	count(lasts, lasts+lasts/100+believed)
	count(earlier.countsAfter(held))
	return l
}

// countsAfter returns what l counts of earlier layouts once it was held for so long.
func (l Layout) countsAfter(held time.Duration) (lasts, left time.Duration) {
	if left = l.Left - surely(held); left <= 0 {
		return 0, 0
	}
	return l.Lasts, left
}

// surely returns how much of a time that another clock measured has surely passed: a clock runs up
// to 1 % fast.
func surely(held time.Duration) time.Duration { return max(held, 0) / 100 * 99 }
