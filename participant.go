package shardlimit

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
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
	id      string // ParticipantID of the name; empty until somebody needs it
	weight  int64  // in thousandths
	invalid error  // why it cannot be used
}

func newParticipant(name string, weight float64) participant {
	p := participant{name: name}
	if p.invalid = checkName("participant", name); p.invalid == nil && !fairWeight(weight) {
		p.invalid = fmt.Errorf("%w: the weight of participant %q is %v, it must be %v to %v", ErrInvalidConfig, name,
			weight, MinWeight, MaxWeight)
	}
	if p.invalid == nil {
		p.weight = int64(math.Round(weight * 1000))
	}
	return p
}

// identified is the participant with its id, if it can be used.
func (p participant) identified() participant {
	if p.id == "" && p.invalid == nil {
		p.id = ParticipantID(p.name)
	}
	return p
}

// ParticipantID is the ID under which Redis knows a participant: the first 64 bits of
// the SHA-256 of its name, as 16 hexadecimal digits. Nobody can choose a name that
// has the ID of somebody else's, and so its account: it takes 2^64 tries. It does not
// hide: who can guess a name can check the guess.
func ParticipantID(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:8])
}

// fairWeight reports whether scripts can keep the weight.
func fairWeight(w float64) bool { return w >= MinWeight && w <= MaxWeight }
