package majority

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxMembership bounds the bytes of a stored membership.
const maxMembership = 1 << 19

// ErrStored: what is stored cannot be held by this version, or cannot be stored.
var ErrStored = errors.New("cannot be held")

// membershipJSON is the stored form of a Membership.
type membershipJSON struct {
	Version int `json:"v"`
	Membership
}

const membershipVersion = 1

// Encode returns the stored form of a membership.
func (m Membership) Encode() (string, error) {
	if err := m.Validate(); err != nil {
		return "", err
	}
	text, err := json.Marshal(membershipJSON{membershipVersion, m})
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
	if err := stored.Validate(); err != nil {
		return Membership{}, fmt.Errorf("membership: %w: %w", ErrStored, err)
	}
	return stored.Membership, nil
}
