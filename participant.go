package shardlimit

import (
	"fmt"
	"math"

	"github.com/cespare/xxhash/v2"
)

// Bounds of a participant's weight. Scripts keep weights in thousandths.
const (
	MinWeight = 0.001
	MaxWeight = 1000
)

// participant is who is entitled to a fair part of a limit: the process, or one
// of those on whose behalf it calls.
type participant struct {
	name    string
	id      string // as it stands in Redis: a name may be long, and may be nobody else's business
	weight  int64  // in thousandths
	invalid error  // why it cannot be used
}

func newParticipant(name string, weight float64) participant {
	p := participant{name: name, id: ParticipantID(name)}
	if p.invalid = checkName("participant", name); p.invalid == nil && !fairWeight(weight) {
		p.invalid = fmt.Errorf("%w: the weight of participant %q is %v, it must be %v to %v", ErrInvalidConfig, name, weight, MinWeight, MaxWeight)
	}
	if p.invalid == nil {
		p.weight = int64(math.Round(weight * 1000))
	}
	return p
}

// ParticipantID is the ID under which Redis knows a participant: the xxhash of
// its name, as 16 hexadecimal digits. It tells apart, but it does not hide: who can
// guess a name can check the guess.
func ParticipantID(name string) string { return fmt.Sprintf("%016x", xxhash.Sum64String(name)) }

// fairWeight reports whether scripts can keep the weight.
func fairWeight(w float64) bool { return w >= MinWeight && w <= MaxWeight }
