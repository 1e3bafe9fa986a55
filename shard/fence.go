package shard

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// maxPlaces is how many nodes can keep a membership.
	maxPlaces = 9
	maxLife   = 64 // bytes
)

// Fence says by which membership of nodes a layout holds. A process asks a live shard for permits
// only while a majority of Places confirms that its node is in the life that the shard is of. So
// what a lost node had can be given to others, although nobody can ask it: its life is over, and
// when it is back it begins another one, with other shards.
type Fence struct {
	Places []string `json:"places"` // the nodes that keep the membership, in order; never changed in place
	// Lost are the nodes, in order, from which shares were taken over, and that get some again when
	// they are back.
	Lost []string `json:"lost,omitempty"`
}

func (f *Fence) validate() error {
	if f == nil {
		return nil
	}
	for _, names := range [][]string{f.Places, f.Lost} {
		if !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) ||
			slices.ContainsFunc(names, func(n string) bool { return n == "" || !text(n) }) {
			return fmt.Errorf("fence: %.200q are not names in order", strings.Join(names, ","))
		}
	}
	if len(f.Places) < 1 || len(f.Places) > maxPlaces || len(f.Lost) > MaxLive {
		return fmt.Errorf("fence: %d places, %d lost", len(f.Places), len(f.Lost))
	}
	return nil
}

// lives reports whether a shard can have this life: letters, digits and dashes, as it stands in
// keys.
func lives(life string) bool {
	return len(life) <= maxLife && !strings.ContainsFunc(life, func(r rune) bool {
		return r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z')
	})
}

// believed is longer than a process goes on granting under a layout that was replaced.
const believed = 16 * time.Second

// maxLasts bounds for how long what was granted may matter.
const maxLasts = 100 * 366 * 24 * time.Hour

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
	lasts := max(l.Lasts, l.Spec().Lasts())
	if l.Keys != nil {
		lasts = max(lasts, l.Keys.Longest)
	}
	return lasts
}

// counting returns l with what an earlier layout granted that it follows, and with what that one
// counts still. Grants that matter no longer than those of l itself change nothing.
func (l Layout) counting(earlier Layout) Layout {
	own := l.Spec().Lasts()
	count := func(lasts time.Duration, until int64) {
		if lasts > own {
			l.Lasts, l.Until = max(l.Lasts, lasts), max(l.Until, until)
		}
	}
	lasts := earlier.Spec().Lasts()
	count(lasts, l.Epoch+(lasts+lasts/100+believed).Microseconds())
	if earlier.Until >= l.Epoch {
		count(earlier.Lasts, earlier.Until)
	}
	return l
}
