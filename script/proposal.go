package script

import (
	"strconv"
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

// Proposal is what every take carries: the layout as its caller knows it. The stored epoch decides what becomes of it. A Proposal never changes
// and is safe for concurrent use; make one for each epoch and floor and keep it, it holds its own text.
type Proposal struct {
	epoch, target, floor int64
	window               int64 // us
	quarantine           bool

	epochText, targetText, floorText, windowText, ttlText string
	knownText                                             string // "known long enough for everything"
}

// NewProposal returns a proposal of the share `target` under `epoch`, of which `floor` may be put in force at once.
//
// epoch runs from 0 to [MaxEpoch]; 0 proposes nothing: it finds what is there and creates nothing, and the other values do not matter.
// 0 <= floor <= target <= [MaxPermits]; window runs from [MinWindow] to [MaxWindow] and is rounded up to microseconds.
// State lives for two windows plus keep (at least one second, at most ten times MaxWindow) after its newest entry opened. quarantine says what to do where a node lost its memory:
// grant nothing until nothing that it forgot can be in use (true), or start fresh (false).
func NewProposal(epoch, target, floor int64, window, keep time.Duration, quarantine bool) (*Proposal, error) {
	if epoch == 0 {
		target, floor, window, keep = 0, 0, MinWindow, 0
	}
	switch {
	case epoch < 0 || epoch > MaxEpoch:
		return nil, invalid("epoch %d", epoch)
	case floor < 0 || floor > target || target > MaxPermits:
		return nil, invalid("floor %d, target %d", floor, target)
	case window < MinWindow || window > MaxWindow:
		return nil, invalid("window %v", window)
	case keep < 0 || keep > 10*MaxWindow:
		return nil, invalid("keep %v", keep)
	}
	us := int64((window + time.Microsecond - 1) / time.Microsecond)
	ttl := 2*milliseconds(window) + milliseconds(max(keep, minKeep))
	return &Proposal{
		epoch: epoch, target: target, floor: floor, window: us, quarantine: quarantine,
		epochText:  strconv.FormatInt(epoch, 10),
		targetText: strconv.FormatInt(target, 10),
		floorText:  strconv.FormatInt(floor, 10),
		windowText: strconv.FormatInt(us, 10),
		ttlText:    strconv.FormatInt(ttl, 10),
		knownText:  strconv.FormatInt(enough(us), 10),
	}, nil
}

// Epoch, Target, Floor and Window return what the proposal was made of; Window as rounded.
func (p *Proposal) Epoch() int64          { return p.epoch }
func (p *Proposal) Target() int64         { return p.target }
func (p *Proposal) Floor() int64          { return p.floor }
func (p *Proposal) Window() time.Duration { return duration(p.window) }

// enough is the time from which on it does not matter how much longer a limit has been known: a node that has been up for less than the
// window is then surely younger than the limit. Microseconds.
func enough(window int64) int64 { return window + 2*second }

const second = int64(time.Second / time.Microsecond)

// milliseconds rounds up.
func milliseconds(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

func duration(us int64) time.Duration { return time.Duration(us) * time.Microsecond }
