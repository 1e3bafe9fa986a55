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
	Places []string // the nodes that keep the membership, in order; never changed in place
	// Lost are the nodes, in order, from which shares were taken over, and that get some again when
	// they are back.
	Lost []string
	// Lasts is for how long what any shard of the layout granted may matter, 0..MaxLasts: also
	// before, under another layout.
	Lasts time.Duration
	// Until is the epoch up to which grants of earlier layouts may matter; 0: Lasts tells of no
	// earlier layout.
	Until int64
}

// MaxLasts bounds for how long what was granted may matter.
const MaxLasts = 100 * 366 * 24 * time.Hour

// Under returns l for [Layout.Change]: the layout that follows is under the fence, nil for none,
// and its live shards must have a life, or none.
func (l Layout) Under(f *Fence) Layout {
	l.Fence = f
	return l
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
	if !f.counts() {
		return fmt.Errorf("fence: grants that matter for %v", f.Lasts)
	}
	return nil
}

// pastBeside is the Past of a layout that takes the place of another one, too, at an epoch: nil
// under a fence, which counts that itself.
func (l Layout) pastBeside(other Layout, epoch int64) *Fence {
	if l.Fence != nil {
		return nil
	}
	var past Fence
	for _, f := range []*Fence{l.Past, other.Past, other.Fence} {
		past = past.CountingOf(f, epoch)
	}
	if other.Fence != nil {
		past = past.Counting(epoch, other.Fence.Lasts)
	}
	if past.Lasts == 0 {
		return nil
	}
	return &past
}

// counts reports whether f tells for how long grants may matter.
func (f *Fence) counts() bool { return f.Until >= 0 && f.Lasts >= 0 && f.Lasts <= MaxLasts }

// lives reports whether a shard can have this life: letters, digits and dashes, as it stands in
// keys.
func lives(life string) bool {
	return len(life) <= maxLife && !strings.ContainsFunc(life, func(r rune) bool {
		return r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z')
	})
}

// fenceJSON is the stored form of a Fence.
type fenceJSON struct {
	Places []string `json:"places"`
	Lost   []string `json:"lost,omitempty"`
	Lasts  int64    `json:"lasts_ns"`
	Until  int64    `json:"until,omitempty"`
}

func (f *Fence) stored() *fenceJSON {
	if f == nil {
		return nil
	}
	return &fenceJSON{f.Places, f.Lost, int64(f.Lasts), f.Until}
}

func (f *fenceJSON) fence() *Fence {
	if f == nil {
		return nil
	}
	return &Fence{f.Places, f.Lost, time.Duration(f.Lasts), f.Until}
}

// Lasting returns f with Lasts of a layout alone, whose own grants may matter for so long.
func (f Fence) Lasting(own time.Duration) Fence {
	f.Lasts, f.Until = min(own, MaxLasts), 0
	return f
}

// Counting returns f for a layout that follows another one at an epoch: what that one granted may
// matter for so long after. Grants that matter no longer than those of the layout itself change
// nothing.
func (f Fence) Counting(epoch int64, lasts time.Duration) Fence {
	lasts = min(lasts, MaxLasts)
	return f.countingUntil(epoch+(lasts+lasts/100+believed).Microseconds(), lasts)
}

// believed is longer than a process goes on granting under a layout that was replaced.
const believed = 16 * time.Second

// CountingOf returns f for a layout that follows one with another fence at an epoch: it counts what
// that one counts still.
func (f Fence) CountingOf(old *Fence, epoch int64) Fence {
	if old == nil || old.Until < epoch {
		return f
	}
	return f.countingUntil(old.Until, old.Lasts)
}

func (f Fence) countingUntil(until int64, lasts time.Duration) Fence {
	if lasts > f.Lasts || f.Until > 0 {
		f.Lasts, f.Until = max(f.Lasts, lasts), max(f.Until, until)
	}
	return f
}

// merged is the fence of a layout that takes the places of two at an epoch.
func (f *Fence) merged(other *Fence, epoch int64) *Fence {
	if f == nil || other == nil {
		return f
	}
	both := f.CountingOf(other, epoch).Counting(epoch, other.Lasts)
	return &both
}
