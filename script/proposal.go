package script

import (
	"fmt"
	"math/bits"
	"time"
)

const (
	// MaxPermits is the largest share, and the most permits one ask may be for.
	MaxPermits = 1_000_000_000_000
	// MinWindow and MaxWindow bound the window of a limit.
	MinWindow = time.Millisecond
	MaxWindow = 31 * 24 * time.Hour
	// MaxEpoch is the largest epoch: the largest integer that Lua's numbers hold exactly.
	MaxEpoch = 1<<53 - 1
	// minKeep is how much longer than two windows a shard's state lives at least.
	minKeep = time.Second
)

// Proposal is what every take carries: the layout as its caller knows it. The stored epoch decides
// what becomes of it. A Proposal never changes and is safe for concurrent use; make one for each
// epoch and floor and keep it, it holds its own text.
type Proposal struct {
	epoch, revision int64
	target, floor   int64
	window          int64 // us
	lasts           int64 // us of a quarantine; 0: there is none
	algorithm       Algorithm
	burst           int64 // 0 for algorithms that have none
	held            int64 // the most that a state of an older epoch can hold; -1: anything
	life            int64 // ms, of state that is unused
	texts
}

// texts are what the scripts are told of a proposal: the full ones, and take.lua; empty: that
// cannot serve it.
type texts struct{ layoutText, calmText, calmLife string }

// Terms is what a [Proposal] is made of: the share Target under Epoch, of which Floor may be put in
// force at once.
type Terms struct {
	// Epoch runs from 0 to MaxEpoch; 0 proposes nothing: it finds what is there and creates
	// nothing, and the other values do not matter.
	Epoch int64
	// Revision, 0 to MaxEpoch, decides between callers that propose another Target or Burst: those
	// of the higher revision are in force, of the same revision those that came last. Under one
	// epoch a shard that is to leave, with a Target of 0, stays so, and its Window stays.
	Revision int64
	// 0 <= Floor <= Target <= MaxPermits.
	Target, Floor int64
	// Held, 0 to MaxPermits, is the share that the layout before this one left to the shard, where
	// HeldKnown. A stored state that holds more is of an old snapshot: what it holds beyond Held is
	// in force elsewhere now, and is not adopted unless it is in use.
	Held      int64
	HeldKnown bool
	// Window runs from MinWindow to MaxWindow and is rounded up to microseconds.
	Window time.Duration
	// Keep is how much longer than two windows the state lives: at least one second, at most ten
	// times MaxWindow.
	Keep      time.Duration
	Algorithm Algorithm
	// Burst is the shard's part of the burst, that of its whole target: while less is in force, as
	// much less of the burst is. 0 to MaxPermits; 0: the same as Target. Only the bucket algorithms
	// look at it. A bucket must be full, and a queue empty, after at most MaxFill.
	Burst int64
	// Retire tells a shard that leaves (Target 0) that shards of another algorithm take over. A
	// bucket then gives its share up only as what it let through leaves the window: nothing in the
	// bucket remembers that, and the others do not count it. Other algorithms ignore it.
	Retire bool
	// Quarantine is how long at least the shard grants nothing where its node lost its memory, and
	// until nothing that it forgot can be in use; 0: it starts fresh. A lost state may have given
	// its share up: then nobody may rely any more on what was read before that.
	Quarantine time.Duration
}

// MaxFill bounds how long it may take to fill an empty bucket.
const MaxFill = 10 * MaxWindow

// Proposal returns the terms in the form in which takes carry them. The error tells of a burst that
// takes too long to fill.
func (t Terms) Proposal() (*Proposal, error) {
	if t.Epoch == 0 {
		t = Terms{Window: MinWindow, Keep: t.Keep, Algorithm: t.Algorithm, Quarantine: t.Quarantine}
	}
	us := int64((t.Window + time.Microsecond - 1) / time.Microsecond)
	// In floating point, as the product may overflow: what is a little too much is as good as what
	// is not.
	if t.Algorithm.Bursty() && t.Target > 0 &&
		float64(t.Burst)*float64(us) > float64(t.Target)*float64(MaxFill/time.Microsecond) {
		return nil, invalid("a burst of %d takes longer than %v to fill", t.Burst, MaxFill)
	}
	switch {
	case t.Algorithm.Bursty() && t.Target == 0 && t.Retire:
		t.Burst = 1
	case !t.Algorithm.Bursty() || t.Target == 0:
		t.Burst = 0
	case t.Burst == 0:
		t.Burst = t.Target
	}
	lasts := us
	if t.Target > 0 && t.Burst > t.Target { // of a bucket
		whole, rest := mulDiv(us, t.Burst, 0, t.Target)
		lasts = whole + min(rest, 1)
	}
	if lasts = max(lasts, int64(t.Quarantine/time.Microsecond)); t.Quarantine == 0 {
		lasts = 0
	}
	life := 2*milliseconds(t.Window) + milliseconds(max(t.Keep, minKeep))
	p := &Proposal{
		epoch: t.Epoch, revision: t.Revision, target: t.Target, floor: t.Floor, window: us, lasts: lasts,
		algorithm: t.Algorithm, burst: t.Burst, held: -1, life: life,
	}
	if t.HeldKnown {
		p.held = t.Held
	}
	p.layoutText = layoutText(t, us)
	p.calmText, p.calmLife = p.calmTexts(life)
	return p, nil
}

// layoutText is how a shard's state begins where all that is proposed is in force.
func layoutText(t Terms, window int64) string {
	if t.Epoch == 0 {
		return letters[t.Algorithm] // how no state begins
	}
	return letters[t.Algorithm] +
		fmt.Sprintf("%d %d %d %d %d %d", t.Epoch, t.Revision, t.Target, window, t.Burst, t.Floor)
}

const second = int64(time.Second / time.Microsecond)

// milliseconds rounds up.
func milliseconds(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

func duration(us int64) time.Duration { return time.Duration(us) * time.Microsecond }

// mulDiv returns the whole part and the remainder of (a*b + c) / d; the whole part must be below
// 2^63.
func mulDiv(a, b, c, d int64) (whole, rest int64) {
	high, low := bits.Mul64(uint64(a), uint64(b))
	low, carry := bits.Add64(low, uint64(c), 0)
	q, r := bits.Div64(high+carry, low, uint64(d))
	return int64(q), int64(r)
}
