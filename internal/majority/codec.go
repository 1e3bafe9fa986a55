package majority

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// What the stored forms hold.
const (
	MaxValue      = 1 << 20 // bytes of a register's value
	MaxRun        = 128     // bytes of the run of a server
	maxMark       = 256
	maxMembership = 1 << 19 // bytes of a stored membership
)

// ErrStored: what is stored cannot be held by this version, or cannot be stored.
var ErrStored = errors.New("cannot be held")

// A stored place is columns of fixed width, which a script can read, and then its three strings:
//
//	offset  0  2   magic "M1"
//	        2  1   votes, 0 or 1
//	        3  4×16  promised and accepted: round, proposer, decimal
//	       67  16  since when it holds the value, microseconds, decimal
//	       83  3   length of run      86  3  length of mark
//	       89      run, mark, value
const (
	placeMagic = "M1"
	placeHead  = 89
)

// Encode returns the stored form of a place.
func (p Place) Encode() (string, error) {
	if err := p.validate(); err != nil {
		return "", err
	}
	votes := 0
	if p.Votes {
		votes = 1
	}
	return fmt.Sprintf("%s%d%016d%016d%016d%016d%016d%03d%03d%s%s%s", placeMagic, votes, p.Promised.Round,
		p.Promised.Proposer, p.Accepted.Round, p.Accepted.Proposer, p.At, len(p.Run), len(p.Mark), p.Run, p.Mark,
		p.Value), nil
}

// DecodePlace returns the place of a stored form.
func DecodePlace(s string) (Place, error) {
	if len(s) < placeHead || s[:2] != placeMagic || s[2] != '0' && s[2] != '1' {
		return Place{}, fmt.Errorf("place: %w: no head", ErrStored)
	}
	var n [7]int64
	for i, from := range []int{3, 19, 35, 51, 67, 83, 86} {
		width := 16
		if from >= 83 {
			width = 3
		}
		column, err := strconv.ParseUint(s[from:from+width], 10, 63)
		if err != nil {
			return Place{}, fmt.Errorf("place: %w: %w", ErrStored, err)
		}
		n[i] = int64(column)
	}
	rest := s[placeHead:]
	if int64(len(rest)) < n[5]+n[6] {
		return Place{}, fmt.Errorf("place: %w: cut off", ErrStored)
	}
	p := Place{Votes: s[2] == '1', Promised: Ballot{n[0], n[1]}, Accepted: Ballot{n[2], n[3]}, At: n[4],
		Run: rest[:n[5]], Mark: rest[n[5] : n[5]+n[6]], Value: rest[n[5]+n[6]:]}
	return p, p.validate()
}

func (p Place) validate() error {
	switch {
	case !p.Promised.valid() || !p.Accepted.valid() || p.Promised.Below(p.Accepted):
		return fmt.Errorf("place: %w: it promised %v and accepted %v", ErrStored, p.Promised, p.Accepted)
	case p.At < 0 || p.At > MaxNumber:
		return fmt.Errorf("place: %w: at %d", ErrStored, p.At)
	case len(p.Run) > MaxRun || len(p.Mark) > maxMark || len(p.Value) > MaxValue:
		return fmt.Errorf("place: %w: %d, %d and %d bytes", ErrStored, len(p.Run), len(p.Mark), len(p.Value))
	case p.Votes && (p.Mark == "" || p.Accepted == Ballot{}) || p.Accepted == (Ballot{}) && p.Value != "":
		return fmt.Errorf("place: %w: it votes without a value", ErrStored)
	case (p.Run == "") != (p.Mark == ""):
		return fmt.Errorf("place: %w: a mark without a run", ErrStored)
	}
	return nil
}

// membershipJSON is the stored form of a Membership.
type membershipJSON struct {
	Version    int        `json:"v"`
	Generation int64      `json:"generation"`
	Places     []string   `json:"places"`
	Nodes      []nodeJSON `json:"nodes"`
}

type nodeJSON struct {
	Name   string `json:"name"`
	Out    bool   `json:"out,omitempty"`
	Since  int64  `json:"since"`
	OutFor int64  `json:"out_us,omitempty"`
}

const membershipVersion = 1

// Encode returns the stored form of a membership. OutFor loses what is below a microsecond.
func (m Membership) Encode() (string, error) {
	if err := m.Validate(); err != nil {
		return "", err
	}
	stored := membershipJSON{Version: membershipVersion, Generation: m.Generation, Places: m.Places}
	for _, n := range m.Nodes {
		if strings.ToValidUTF8(n.Name, "") != n.Name {
			return "", fmt.Errorf("membership: %w: node %q", ErrStored, n.Name)
		}
		stored.Nodes = append(stored.Nodes, nodeJSON{n.Name, n.Out, n.Since, n.OutFor.Microseconds()})
	}
	text, err := json.Marshal(stored)
	if err == nil && len(text) > maxMembership {
		err = fmt.Errorf("membership: %w: %d bytes", ErrStored, len(text))
	}
	return string(text), err
}

// DecodeMembership returns the membership of a stored form. It refuses what it does not know: a
// process that overlooks a rule of a later version would break it.
func DecodeMembership(s string) (Membership, error) {
	if len(s) > maxMembership {
		return Membership{}, fmt.Errorf("membership: %w: %d bytes", ErrStored, len(s))
	}
	var stored membershipJSON
	d := json.NewDecoder(bytes.NewReader([]byte(s)))
	d.DisallowUnknownFields()
	if err := d.Decode(&stored); err != nil {
		return Membership{}, fmt.Errorf("membership: %w: %w", ErrStored, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) || stored.Version != membershipVersion {
		return Membership{}, fmt.Errorf("membership: %w: version %d", ErrStored, stored.Version)
	}
	m := Membership{Generation: stored.Generation, Places: stored.Places}
	for _, n := range stored.Nodes {
		if n.OutFor < 0 || n.OutFor > maxOutFor.Microseconds() {
			return Membership{}, fmt.Errorf("membership: %w: out for %d us", ErrStored, n.OutFor)
		}
		m.Nodes = append(m.Nodes, Node{n.Name, n.Out, n.Since, time.Duration(n.OutFor) * time.Microsecond})
	}
	if err := m.Validate(); err != nil {
		return Membership{}, fmt.Errorf("membership: %w: %w", ErrStored, err)
	}
	return m, nil
}
