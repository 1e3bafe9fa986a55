package shard

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
)

// version numbers the JSON form of a layout.
const version = 1

// layoutJSON is the stored form of a Layout.
type layoutJSON struct {
	Version int `json:"v"`
	plain
}

// plain is a Layout without its methods.
type plain Layout

// MarshalJSON returns the stored form of l, or an error if l is not valid.
func (l Layout) MarshalJSON() ([]byte, error) {
	if err := l.Validate(); err != nil {
		return nil, err
	}
	return json.Marshal(layoutJSON{version, plain(l)})
}

// UnmarshalJSON sets l from its stored form. It accepts only what MarshalJSON
// writes, apart from white space: an unknown version, a field too many, too few,
// repeated or spelled otherwise, or a layout that is not valid is an error that wraps
// ErrInvalidLayout and leaves l as it was.
func (l *Layout) UnmarshalJSON(data []byte) error {
	var stored layoutJSON
	var compact bytes.Buffer
	if err := cmp.Or(json.Unmarshal(data, &stored), json.Compact(&compact, data)); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidLayout, err)
	}
	if stored.Version != version {
		return fmt.Errorf("%w: version %d, not %d", ErrInvalidLayout, stored.Version, version)
	}
	decoded := Layout(stored.plain)
	again, err := decoded.MarshalJSON()
	if err != nil {
		return err
	}
	if !bytes.Equal(again, compact.Bytes()) {
		return fmt.Errorf("%w: not in the form this version writes", ErrInvalidLayout)
	}
	*l = decoded
	return nil
}
