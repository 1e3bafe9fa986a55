package limit

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

// Participant is who is entitled to a fair part of a limit: the process, or one
// of those on whose behalf it calls.
type Participant struct {
	Name    string
	ID      string // ParticipantID of the name; empty until somebody needs it
	Weight  int64  // in thousandths
	Invalid error  // why it cannot be used
}

// NewParticipant returns the participant of that name, without its id. Invalid tells what is
// impossible.
func NewParticipant(name string, weight float64) Participant {
	p := Participant{Name: name}
	if p.Invalid = CheckName("participant", name); p.Invalid == nil && !fairWeight(weight) {
		p.Invalid = fmt.Errorf("%w: the weight of participant %q is %v, it must be %v to %v", ErrInvalidConfig, name,
			weight, MinWeight, MaxWeight)
	}
	if p.Invalid == nil {
		p.Weight = int64(math.Round(weight * 1000))
	}
	return p
}

// Identified returns the participant with its id, if it can be used.
func (p Participant) Identified() Participant {
	if p.ID == "" && p.Invalid == nil {
		p.ID = ParticipantID(p.Name)
	}
	return p
}

// ParticipantID returns the ID under which Redis knows a participant, see shardlimit.ParticipantID.
func ParticipantID(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:8])
}

// fairWeight reports whether scripts can keep the weight.
func fairWeight(w float64) bool { return w >= MinWeight && w <= MaxWeight }
