package shard

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// version numbers the JSON form of a layout.
const version = 1

// layoutJSON is the stored form of a Layout.
type layoutJSON struct {
	Version   int          `json:"v"`
	Epoch     int64        `json:"epoch"`
	Changed   int64        `json:"changed,omitempty"` // absent: Epoch
	Settled   bool         `json:"settled"`
	Permits   int64        `json:"permits"`
	Window    int64        `json:"window_ns"`
	Algorithm string       `json:"algorithm"`
	Burst     int64        `json:"burst,omitempty"`
	Revision  int64        `json:"revision"`
	Lease     int64        `json:"lease_ns,omitempty"`
	Scope     string       `json:"scope,omitempty"`
	Mode      string       `json:"mode,omitempty"`
	Auto      bool         `json:"auto,omitempty"`
	Anchor    *anchorJSON  `json:"anchor,omitempty"`
	Origins   []anchorJSON `json:"origins,omitempty"`
	Fence     *fenceJSON   `json:"fence,omitempty"`
	Lasts     int64        `json:"lasts_ns,omitempty"`
	Until     int64        `json:"until,omitempty"`
	Shards    []shardJSON  `json:"shards"`
	Keys      *keysJSON    `json:"keys,omitempty"`
}

// anchorJSON is the stored form of the Anchor of a Layout that has one, and of its Origins, which
// have an epoch.
type anchorJSON struct {
	Slot  int    `json:"slot"`
	Node  string `json:"node"`
	Epoch int64  `json:"epoch,omitempty"`
}

// shardJSON is the stored form of a Shard; Start is present only while the layout is
// unsettled, Algorithm only where it is not that of the layout.
type shardJSON struct {
	Slot      int    `json:"slot"`
	Node      string `json:"node"`
	Algorithm string `json:"algorithm,omitempty"`
	Share     int64  `json:"share"`
	Burst     int64  `json:"burst,omitempty"`
	Start     *int64 `json:"start,omitempty"`
	Life      string `json:"life,omitempty"`
}

// MarshalJSON returns the stored form of l, or an error if l is not valid.
func (l Layout) MarshalJSON() ([]byte, error) {
	if err := l.Validate(); err != nil {
		return nil, err
	}
	stored := layoutJSON{
		Version: version, Epoch: l.Epoch, Settled: l.Settled, Permits: l.Permits, Window: int64(l.Window),
		Algorithm: l.Algorithm, Burst: l.Burst, Revision: l.Revision, Lease: int64(l.Lease), Scope: l.Scope,
		Mode: l.Mode, Auto: l.Auto, Lasts: int64(l.Lasts), Until: l.Until, Shards: make([]shardJSON, len(l.Shards)),
	}
	if l.changed() != l.Epoch {
		stored.Changed = l.Changed
	}
	if l.Anchor != (Location{}) {
		stored.Anchor = &anchorJSON{Slot: l.Anchor.Slot, Node: l.Anchor.Node}
	}
	for _, o := range l.Origins {
		stored.Origins = append(stored.Origins, anchorJSON{Slot: o.Anchor.Slot, Node: o.Anchor.Node, Epoch: o.Epoch})
	}
	for i, s := range l.Shards {
		stored.Shards[i] = shardJSON{Slot: s.Slot, Node: s.Node, Share: s.Share, Burst: s.Burst, Life: s.Life}
		if s.Algorithm != l.Algorithm {
			stored.Shards[i].Algorithm = s.Algorithm
		}
		if !l.Settled {
			stored.Shards[i].Start = &s.Start
		}
	}
	stored.Keys, stored.Fence = l.Keys.stored(), (*fenceJSON)(l.Fence)
	return json.Marshal(stored)
}

// UnmarshalJSON sets l from its stored form. It accepts only what MarshalJSON
// writes, apart from white space: an unknown version, a field too many, too few,
// repeated or spelled otherwise, or a layout that is not valid is an error that wraps
// ErrInvalidLayout and leaves l as it was.
func (l *Layout) UnmarshalJSON(data []byte) error {
	decoded, err := decode(data)
	if err != nil {
		return err
	}
	*l = decoded
	return nil
}

func decode(data []byte) (Layout, error) {
	var stored layoutJSON
	if err := json.Unmarshal(data, &stored); err != nil {
		return Layout{}, fmt.Errorf("%w: %w", ErrInvalidLayout, err)
	}
	if stored.Version != version {
		return Layout{}, fmt.Errorf("%w: version %d, not %d", ErrInvalidLayout, stored.Version, version)
	}
	l := Layout{
		Epoch: stored.Epoch, Changed: cmp.Or(stored.Changed, stored.Epoch), Settled: stored.Settled,
		Permits: stored.Permits, Window: time.Duration(stored.Window),
		Algorithm: stored.Algorithm, Burst: stored.Burst, Revision: stored.Revision, Lease: time.Duration(stored.Lease),
		Scope: stored.Scope, Mode: stored.Mode, Auto: stored.Auto, Lasts: time.Duration(stored.Lasts), Until: stored.Until,
		Shards: make([]Shard, len(stored.Shards)),
	}
	l.Keys, l.Fence = stored.Keys.keys(), (*Fence)(stored.Fence)
	if stored.Anchor != nil {
		l.Anchor = Location{Slot: stored.Anchor.Slot, Node: stored.Anchor.Node}
	}
	for _, o := range stored.Origins {
		l.Origins = append(l.Origins, Origin{Location{Slot: o.Slot, Node: o.Node}, o.Epoch})
	}
	for i, s := range stored.Shards {
		l.Shards[i] = Shard{Slot: s.Slot, Node: s.Node, Algorithm: cmp.Or(s.Algorithm, l.Algorithm), Share: s.Share,
			Burst: s.Burst, Life: s.Life}
		if s.Start != nil {
			l.Shards[i].Start = *s.Start
		}
	}
	again, err := l.MarshalJSON()
	if err != nil {
		return Layout{}, err
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, data); err != nil {
		return Layout{}, fmt.Errorf("%w: %w", ErrInvalidLayout, err)
	}
	if !bytes.Equal(again, compact.Bytes()) {
		return Layout{}, fmt.Errorf("%w: %w", ErrInvalidLayout, errors.New("not in the form this version writes"))
	}
	return l, nil
}
