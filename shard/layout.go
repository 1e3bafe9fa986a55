package shard

import (
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"
)

// ErrInvalidLayout is wrapped by every error of this package but ErrTooManyMoves.
var ErrInvalidLayout = errors.New("invalid layout")

// Bounds of a layout. A stored one that exceeds them is not valid: whoever reads it would have to
// hold, ask and remember all that it lists.
const (
	MaxLive   = 256  // shards that have a share
	MaxShards = 4096 // shards in all: those that changes have left behind, and that did not empty yet, too
	MaxText   = 1024 // bytes of the name of a node, an algorithm or a scope
)

// Spec is what a layout divides: Permits (1..MaxPermits) per Window (1 ms to 31
// days) under an algorithm, at a revision (>= 0).
type Spec struct {
	Permits   int64         `json:"permits"`
	Window    time.Duration `json:"window_ns"`
	Algorithm string        `json:"algorithm"`
	// permits that may come at once, where the algorithm has such a bound: 0 (whatever its default
	// is) to MaxPermits
	Burst    int64         `json:"burst,omitempty"`
	Revision int64         `json:"revision"`
	Lease    time.Duration `json:"lease_ns,omitempty"` // how long permits may be held before they are used; 0 to Window
	Scope    string        `json:"scope,omitempty"`    // whom the limit holds for; "" is everybody together
	Mode     string        `json:"mode,omitempty"`     // what is done with what is counted; "" enforces it
	Auto     bool          `json:"auto,omitempty"`     // nobody asked for this number of shards: it may be chosen anew
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
	Epoch   int64 `json:"epoch"` // 1..MaxEpoch; grows with every change
	Settled bool  `json:"settled"`
	Spec
	// Fence is nil if lost nodes are not taken over. It is never changed in place.
	Fence *Fence `json:"fence,omitempty"`
	// Lasts is for how long grants under earlier layouts may matter; 0: no longer than those under
	// this one. Left is for how much longer they are counted, from when this
	// layout was written.
	Lasts  time.Duration `json:"lasts_ns,omitempty"`
	Left   time.Duration `json:"left_ns,omitempty"`
	Shards []Shard       `json:"shards"` // live ones first, in position order; leaving ones after
	// how the keys of a family are arranged; nil for a limit; never changed in place
	Keys *Keys `json:"keys,omitempty"`
}

// New returns the first layout of a limit that nobody has used before, under a fence; nil: under
// none. It is settled at once, because nothing can be in use. That is only true if no shard holds
// state of an earlier life of the name: its epoch must then be greater than any that life had, and
// Change, not New, must be used.
func New(f *Fence, epoch int64, s Spec, shards []Shard) (Layout, error) {
	l := Layout{Epoch: epoch, Spec: s, Settled: true, Fence: f}
	l.Shards = s.live(shards)
	return checked(l)
}

// NewFamily is New for a family whose keys are placed over nodes.
func NewFamily(f *Fence, epoch int64, s Spec, shards []Shard, nodes []Node) (Layout, error) {
	l, err := New(f, epoch, s, shards)
	if err != nil {
		return Layout{}, err
	}
	l.Keys = &Keys{Arrangement: Arrangement{normal(nodes)}, Longest: s.Lasts()}
	return checked(l)
}

// Change returns the layout that is to follow l: the given shards (all live)
// under a greater epoch, and everything else that l lists, leaving. It is
// unsettled, with Start as [Layout.Plan] needs it, unless nothing has to move:
// if l is settled and the shards, their shares and bursts, the window, the scope and the
// algorithm are the same, it is settled at once, because every shard holds the right share whether
// it has heard of the new epoch or not. Under another mode nothing moves, but it is not settled
// before every shard has heard: so processes learn of it with their next calls.
//
// Under another algorithm all shards are new ones, and those of the old algorithm leave: the
// capacity moves as they empty, as it does between places. The keys of a family stay where they
// are, but for the algorithm.
//
// As with every method that makes the next layout, held is for how long at least l had been held.
func (l Layout) Change(epoch int64, s Spec, shards []Shard, held time.Duration) (Layout, error) {
	keys := l.Keys
	if keys != nil {
		var err error
		if keys, err = keysAfter(l, s, keys.Arrangement, held); err != nil {
			return Layout{}, err
		}
	}
	return l.follow(epoch, s, shards, keys, held)
}

// Outlast returns the layout that is to go on where a record holds another one, found, that comes
// before l, because it forgot l: the limit of l under an epoch greater than both. Shards may have
// obeyed either, so all that any of the two lists are asked before anything is raised. Where shards
// have overtaken l, and nobody knows by what, l goes on after itself.
func (l Layout) Outlast(epoch int64, found Layout) (Layout, error) {
	keys := l.Keys.aged(0)
	if keys != nil && found.Keys != nil {
		// Of a key that is where l has it, nobody knows what it has there: so that is before, too.
		keys.Before = distinct(slices.Concat(found.Keys.Before, keys.Before, []Past{
			found.Keys.past(found.Algorithm), keys.past(l.Algorithm)}))
		keys.Before = keys.Before[max(0, len(keys.Before)-mostBefore):]
		for i := range keys.Before {
			keys.Before[i].LeftFor = 0 // they may be in use again
		}
		keys.Longest = max(keys.Longest, found.Keys.Longest)
	}
	l.Settled = false
	next, err := l.follow(epoch, l.Spec, l.Live(), keys, 0)
	if err != nil {
		return Layout{}, err
	}
	next.Shards = withLeaving(next.Shards, found.Shards, holds(l))
	return checked(counting(next, found, 0))
}

// follow is Change with the keys that the next layout is to have.
func (l Layout) follow(epoch int64, s Spec, shards []Shard, keys *Keys, held time.Duration) (Layout, error) {
	if epoch <= l.Epoch {
		return Layout{}, fmt.Errorf("%w: epoch %d does not follow %d", ErrInvalidLayout, epoch, l.Epoch)
	}
	shards = s.live(shards)
	next := Layout{Epoch: epoch, Spec: s, Fence: l.Fence, Keys: keys}
	next.Settled = l.Settled && l.Window == s.Window && l.Lease == s.Lease && l.Burst == s.Burst &&
		l.Scope == s.Scope && l.Mode == s.Mode && sameShares(l.Shards, shards)
	next.Shards = shards
	if !next.Settled {
		start := holds(l)
		for i := range shards {
			shards[i].Start = start(shards[i])
		}
		next.Shards = withLeaving(shards, l.Shards, start)
	}
	return checked(counting(next, l, held))
}

// holds returns a function that tells what a shard holds under l: its share, or
// nothing if l does not list it; Unknown while l is unsettled.
func holds(l Layout) func(Shard) int64 {
	if !l.Settled {
		return func(Shard) int64 { return Unknown }
	}
	return func(s Shard) int64 {
		if i := l.Index(s.Site()); i >= 0 {
			return l.Shards[i].Share
		}
		return 0
	}
}

// Settle returns l in force: settled, without the leaving shards. Call it when
// a [Step] was Done, then store the result. That is held anew, so held counts here, too.
func (l Layout) Settle(held time.Duration) Layout {
	l.Settled = true
	l.Shards = l.live(l.Live())
	l.Lasts, l.Left = l.countsAfter(held)
	l.Keys = l.Keys.aged(held)
	return l
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

// Index returns the index in Shards of the shard at a site, or -1.
func (l Layout) Index(at Site) int { return indexOf(l.Shards, at) }

func indexOf(shards []Shard, at Site) int {
	return slices.IndexFunc(shards, func(s Shard) bool { return s.Site() == at })
}

// Validate returns an error that wraps ErrInvalidLayout unless l could have come from New,
// Change or Settle, within the bounds of this package.
func (l Layout) Validate() error {
	if err := validate(l); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidLayout, err)
	}
	return nil
}

func validate(l Layout) error {
	switch {
	case l.Epoch < 1 || l.Epoch > MaxEpoch:
		return fmt.Errorf("epoch %d is outside 1..%d", l.Epoch, MaxEpoch)
	case l.Permits < 1 || l.Permits > MaxPermits:
		return fmt.Errorf("%d permits are outside 1..%d", l.Permits, MaxPermits)
	case l.Window < MinWindow || l.Window > MaxWindow:
		return fmt.Errorf("window %v is outside %v..%v", l.Window, MinWindow, MaxWindow)
	case l.Lease < 0 || l.Lease > l.Window || l.Span() > MaxWindow:
		return fmt.Errorf("lease %v is outside 0..window, or the two exceed %v", l.Lease, MaxWindow)
	case l.Algorithm == "" || !text(l.Algorithm):
		return fmt.Errorf("algorithm %.80q is empty, too long or not UTF-8", l.Algorithm)
	case !text(l.Scope) || !text(l.Mode):
		return fmt.Errorf("scope %.80q or mode %.80q is too long or not UTF-8", l.Scope, l.Mode)
	case len(l.Shards) > MaxShards || len(l.Live()) > MaxLive:
		return fmt.Errorf("%d live shards of %d, at most %d of %d can be", len(l.Live()), len(l.Shards), MaxLive,
			MaxShards)
	case l.Burst < 0 || l.Burst > MaxPermits:
		return fmt.Errorf("a burst of %d is outside 0..%d", l.Burst, MaxPermits)
	case l.Revision < 0:
		return fmt.Errorf("revision %d is negative", l.Revision)
	case l.Lasts < 0 || l.Lasts > maxLasts+MaxWindow || l.Left < 0 || l.Left > maxLeft ||
		(l.Lasts == 0) != (l.Left == 0):
		return fmt.Errorf("grants that matter for %v, for %v longer", l.Lasts, l.Left)
	}
	if err := l.Fence.validate(); err != nil {
		return err
	}
	if err := l.Keys.validate(l.Spec, l.Fence != nil); err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	return validateShards(l)
}

// text reports whether s may stand in a layout.
func text(s string) bool { return len(s) <= MaxText && utf8.ValidString(s) }

func validateShards(l Layout) error {
	rest, burst, leaving := l.Permits, l.Burst, false
	seen := make(map[Site]bool, len(l.Shards))
	for i, s := range l.Shards {
		if err := s.validate(l.Settled); err != nil {
			return fmt.Errorf("shard %d: %w", i, err)
		}
		if seen[s.Site()] {
			return fmt.Errorf("shard %d: %q has slot %d twice", i, s.Node, s.Slot)
		}
		if !incarnations(s.Incarnation) || s.Share > 0 && (s.Incarnation != "") != (l.Fence != nil) {
			return fmt.Errorf("shard %d: incarnation %.80q, under a fence: %v", i, s.Incarnation, l.Fence != nil)
		}
		if s.Share > 0 && s.Algorithm != l.Algorithm {
			return fmt.Errorf("shard %d: live with algorithm %q, not %q", i, s.Algorithm, l.Algorithm)
		}
		if s.Burst > burst || (s.Burst > 0) != (s.Share > 0 && l.Burst > 0) {
			return fmt.Errorf("shard %d: a burst of %d, with %d left of %d", i, s.Burst, burst, l.Burst)
		}
		burst -= s.Burst
		seen[s.Site()] = true
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
	if burst != 0 {
		return fmt.Errorf("the bursts sum to %d less than %d", burst, l.Burst)
	}
	return nil
}

func (s Shard) validate(settled bool) error {
	switch {
	case s.Slot < 0 || s.Slot >= Slots:
		return fmt.Errorf("slot %d is outside 0..%d", s.Slot, Slots-1)
	case s.Node == "" || !text(s.Node):
		return fmt.Errorf("node %.80q is empty, too long or not UTF-8", s.Node)
	case s.Algorithm == "" || !text(s.Algorithm):
		return fmt.Errorf("algorithm %.80q is empty, too long or not UTF-8", s.Algorithm)
	case s.Share < 0 || s.Burst < 0:
		return fmt.Errorf("share %d or burst %d is negative", s.Share, s.Burst)
	case settled && s.Share == 0:
		return errors.New("a settled layout has no leaving shards")
	case settled && s.Start != 0:
		return fmt.Errorf("a settled layout has no start, not %d", s.Start)
	case s.Start < Unknown || s.Start > MaxPermits:
		return fmt.Errorf("start %d is outside -1..%d", s.Start, MaxPermits)
	}
	return nil
}

// live returns a copy of shards with the algorithm, each with an equal part of the burst, as their
// shares are equal, and with no Start. Shards that cannot be live are left for Validate to find.
func (s Spec) live(shards []Shard) []Shard {
	copied := slices.Clone(shards)
	for i, part := range Split(s.Burst, len(copied)) {
		copied[i].Algorithm, copied[i].Burst, copied[i].Start = s.Algorithm, part, 0
	}
	return copied
}

// Site is what identifies a shard.
type Site struct {
	Location
	Algorithm   string
	Incarnation string
}

// Site returns what identifies the shard.
func (s Shard) Site() Site { return Site{Location{s.Slot, s.Node}, s.Algorithm, s.Incarnation} }

// checked returns l if it is valid.
func checked(l Layout) (Layout, error) {
	if err := l.Validate(); err != nil {
		return Layout{}, err
	}
	return l, nil
}

// withLeaving returns shards with those of before that are not among them, leaving, with Start set
// by start.
func withLeaving(shards, before []Shard, start func(Shard) int64) []Shard {
	live := shards
	for _, s := range before {
		if indexOf(live, s.Site()) < 0 {
			s.Share, s.Burst, s.Start = 0, 0, start(s)
			shards = append(shards, s)
		}
	}
	return shards
}

// sameShares reports whether a and b, each free of duplicates, give the same shares and bursts to
// the same places.
func sameShares(a, b []Shard) bool {
	for _, s := range b {
		if i := indexOf(a, s.Site()); i < 0 || a[i].Share != s.Share || a[i].Burst != s.Burst {
			return false
		}
	}
	return len(a) == len(b)
}
