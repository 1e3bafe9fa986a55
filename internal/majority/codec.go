package majority

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// maxMembership bounds the bytes of a stored membership.
const maxMembership = 1 << 19

// ErrStored: what is stored cannot be held by this version, or cannot be stored.
var ErrStored = errors.New("cannot be held")

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
