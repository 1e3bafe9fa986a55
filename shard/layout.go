package shard

import (
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"
)

// ErrInvalidLayout is wrapped by every error of this package.
var ErrInvalidLayout = errors.New("invalid layout")

// Spec is what a layout divides: Permits (1..MaxPermits) per Window (1 ms to 31
// days) under an algorithm, at a revision (>= 0).
type Spec struct {
	Permits   int64
	Window    time.Duration
	Algorithm string
	Revision  int64
	Lease     time.Duration // how long permits may be held before they are used; 0 to Window
}

// Layout says which shards a limit has, what share each is to have, and numbers
// the arrangement. It is a value: its methods return new layouts and never
// change Shards in place, and neither should callers, as copies of a Layout share
// them. Its JSON form is what Redis stores.
//
// A settled layout is in force: every shard has its Share. An unsettled one is
// being put in force: shards still hold what they had before, and [Layout.Plan]
// says which of them may be raised.
type Layout struct {
	Epoch     int64 // 1..MaxEpoch; grows with every change
	Settled   bool
	Permits   int64
	Window    time.Duration
	Algorithm string
	Revision  int64
	Lease     time.Duration
	Shards    []Shard // live ones first, in position order; leaving ones after
}

// New returns the first layout of a limit that nobody has used before. It is settled at
// once, because nothing can be in use. That is only true if no shard holds state
// of an earlier life of the name: its epoch must then be greater than any
// that life had, and Change, not New, must be used.
func New(epoch int64, s Spec, shards []Shard) (Layout, error) {
	l := s.layout(epoch)
	l.Settled = true
	l.Shards = withStart(shards, func(Shard) int64 { return 0 })
	return l.checked()
}

// Change returns the layout that is to follow l: the given shards (all live)
// under a greater epoch, and everything else that l lists, leaving. It is
// unsettled, with Start as [Layout.Plan] needs it, unless nothing has to move:
// if l is settled and the shards, their shares, the window and the algorithm
// are the same, it is settled at once, because every shard holds the right share whether
// it has heard of the new epoch or not.
func (l Layout) Change(epoch int64, s Spec, shards []Shard) (Layout, error) {
	if epoch <= l.Epoch {
		return Layout{}, fmt.Errorf("%w: epoch %d does not follow %d", ErrInvalidLayout, epoch, l.Epoch)
	}
	if slices.ContainsFunc(shards, func(s Shard) bool { return s.Share == 0 }) {
		return Layout{}, fmt.Errorf("%w: a shard to be live has no share", ErrInvalidLayout)
	}
	next := s.layout(epoch)
	next.Settled = l.Settled && l.Window == s.Window && l.Lease == s.Lease && l.Algorithm == s.Algorithm && sameShares(l.Shards, shards)
	if next.Settled {
		next.Shards = withStart(shards, func(Shard) int64 { return 0 })
		return next.checked()
	}
	held := l.held()
	next.Shards = withStart(shards, held)
	listed := places(next.Shards)
	for _, s := range l.Shards {
		if _, ok := listed[s.place()]; !ok {
			next.Shards = append(next.Shards, Shard{Slot: s.Slot, Node: s.Node, Start: held(s)})
		}
	}
	return next.checked()
}

// held returns a function that tells what a shard holds under l: its share, or
// nothing if l does not list it; Unknown while l is unsettled.
func (l Layout) held() func(Shard) int64 {
	if !l.Settled {
		return func(Shard) int64 { return Unknown }
	}
	at := places(l.Shards)
	return func(s Shard) int64 {
		if i, ok := at[s.place()]; ok {
			return l.Shards[i].Share
		}
		return 0
	}
}

// Settle returns l in force: settled, without the leaving shards. Call it when
// a [Step] was Done, then store the result.
func (l Layout) Settle() Layout {
	l.Settled = true
	l.Shards = withStart(l.Live(), func(Shard) int64 { return 0 })
	return l
}

// Spec returns what l divides.
func (l Layout) Spec() Spec {
	return Spec{Permits: l.Permits, Window: l.Window, Algorithm: l.Algorithm, Revision: l.Revision, Lease: l.Lease}
}

// Span is how long a permit stays in a shard's log: the window, and before that
// the time for which it may be held before it is used.
func (l Layout) Span() time.Duration { return l.Window + l.Lease }

// Live returns the shards that have a share: the first ones of Shards, not a copy.
func (l Layout) Live() []Shard {
	n := slices.IndexFunc(l.Shards, func(s Shard) bool { return s.Share == 0 })
	if n < 0 {
		n = len(l.Shards)
	}
	return l.Shards[:n:n]
}

// Index returns the index in Shards of the shard at (slot, node), or -1.
func (l Layout) Index(slot int, node string) int {
	return slices.IndexFunc(l.Shards, func(s Shard) bool { return s.Slot == slot && s.Node == node })
}

// Validate returns an error that wraps ErrInvalidLayout unless l could have come from New,
// Change or Settle.
func (l Layout) Validate() error {
	if err := l.validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidLayout, err)
	}
	return nil
}

func (l Layout) validate() error {
	switch {
	case l.Epoch < 1 || l.Epoch > MaxEpoch:
		return fmt.Errorf("epoch %d is outside 1..%d", l.Epoch, MaxEpoch)
	case l.Permits < 1 || l.Permits > MaxPermits:
		return fmt.Errorf("%d permits are outside 1..%d", l.Permits, MaxPermits)
	case l.Window < time.Millisecond || l.Window > 31*24*time.Hour:
		return fmt.Errorf("window %v is outside 1ms..744h", l.Window)
	case l.Lease < 0 || l.Lease > l.Window || l.Span() > 31*24*time.Hour:
		return fmt.Errorf("lease %v is outside 0..window, or the two exceed 744h", l.Lease)
	case l.Algorithm == "" || !utf8.ValidString(l.Algorithm):
		return fmt.Errorf("algorithm %q is empty or not UTF-8", l.Algorithm)
	case l.Revision < 0:
		return fmt.Errorf("revision %d is negative", l.Revision)
	}
	return l.validateShards()
}

func (l Layout) validateShards() error {
	rest, leaving := l.Permits, false
	seen := make(map[Location]bool, len(l.Shards))
	for i, s := range l.Shards {
		if err := s.validate(l.Settled); err != nil {
			return fmt.Errorf("shard %d: %w", i, err)
		}
		if seen[s.place()] {
			return fmt.Errorf("shard %d: %q has slot %d twice", i, s.Node, s.Slot)
		}
		seen[s.place()] = true
		if leaving && s.Share > 0 {
			return fmt.Errorf("shard %d: live after a leaving one", i)
		}
		leaving = s.Share == 0
		if s.Share > rest {
			return fmt.Errorf("the shares sum to more than %d permits", l.Permits)
		}
		rest -= s.Share
	}
	if rest != 0 {
		return fmt.Errorf("the shares sum to %d less than %d permits", rest, l.Permits)
	}
	return nil
}

func (s Shard) validate(settled bool) error {
	switch {
	case s.Slot < 0 || s.Slot >= Slots:
		return fmt.Errorf("slot %d is outside 0..%d", s.Slot, Slots-1)
	case s.Node == "" || !utf8.ValidString(s.Node):
		return fmt.Errorf("node %q is empty or not UTF-8", s.Node)
	case s.Share < 0:
		return fmt.Errorf("share %d is negative", s.Share)
	case settled && s.Share == 0:
		return errors.New("a settled layout has no leaving shards")
	case settled && s.Start != 0:
		return fmt.Errorf("a settled layout has no start, not %d", s.Start)
	case s.Start < Unknown || s.Start > MaxPermits:
		return fmt.Errorf("start %d is outside -1..%d", s.Start, MaxPermits)
	}
	return nil
}

func (s Spec) layout(epoch int64) Layout {
	return Layout{
		Epoch: epoch, Permits: s.Permits, Window: s.Window, Algorithm: s.Algorithm, Revision: s.Revision, Lease: s.Lease,
	}
}

func (s Shard) place() Location { return Location{s.Slot, s.Node} }

// checked returns l if it is valid.
func (l Layout) checked() (Layout, error) {
	if err := l.Validate(); err != nil {
		return Layout{}, err
	}
	return l, nil
}

// withStart returns a copy of shards with Start set by start.
func withStart(shards []Shard, start func(Shard) int64) []Shard {
	copied := slices.Clone(shards)
	for i := range copied {
		copied[i].Start = start(copied[i])
	}
	return copied
}

// places returns the index of every shard by its place.
func places(shards []Shard) map[Location]int {
	at := make(map[Location]int, len(shards))
	for i, s := range shards {
		at[s.place()] = i
	}
	return at
}

// sameShares reports whether a and b, each free of duplicates, give the same shares to the same places.
func sameShares(a, b []Shard) bool {
	at := places(a)
	for _, s := range b {
		if i, ok := at[s.place()]; !ok || a[i].Share != s.Share {
			return false
		}
	}
	return len(a) == len(b)
}
