package shard

import "time"

// keysJSON is the stored form of Keys.
type keysJSON struct {
	arrangementJSON
	Before  []pastJSON `json:"before,omitempty"`
	Own     []ownJSON  `json:"own,omitempty"`
	Cut     bool       `json:"cut,omitempty"`
	Since   int64      `json:"since_us,omitempty"`
	SinceAt string     `json:"since_at,omitempty"`
	Upto    int64      `json:"upto,omitempty"`
}

// arrangementJSON is the stored form of an Arrangement.
type arrangementJSON struct {
	Shards int        `json:"shards"`
	Slots  int        `json:"slots,omitempty"`
	Nodes  []nodeJSON `json:"nodes"`
	Fell   bool       `json:"fell,omitempty"`
}

type nodeJSON struct {
	Name   string  `json:"name"`
	Weight float64 `json:"weight"`
	Life   string  `json:"life,omitempty"`
}

// pastJSON is the stored form of a Past. Of its spec it has what a key may still hold depends on.
type pastJSON struct {
	arrangementJSON
	Epoch     int64  `json:"epoch"`
	Permits   int64  `json:"permits"`
	Window    int64  `json:"window_ns"`
	Algorithm string `json:"algorithm"`
	Burst     int64  `json:"burst,omitempty"`
	Lease     int64  `json:"lease_ns,omitempty"`
	Scope     string `json:"scope,omitempty"`
}

// termsJSON is the stored form of Terms.
type termsJSON struct {
	Permits int64  `json:"permits,omitempty"`
	Window  int64  `json:"window_ns,omitempty"`
	Burst   int64  `json:"burst,omitempty"`
	Lease   int64  `json:"lease_ns,omitempty"`
	Mode    string `json:"mode,omitempty"`
}

// ownJSON is the stored form of an Own. An id may have any bytes, so it is not stored as text.
type ownJSON struct {
	ID []byte `json:"id"`
	termsJSON
	Before []ownPastJSON `json:"before,omitempty"`
}

// ownPastJSON is the stored form of an OwnPast.
type ownPastJSON struct {
	Epoch int64 `json:"epoch"`
	termsJSON
	Follows bool `json:"follows,omitempty"`
}

func (t Terms) stored() termsJSON {
	return termsJSON{t.Permits, int64(t.Window), t.Burst, int64(t.Lease), t.Mode}
}

func (j termsJSON) terms() Terms {
	return Terms{j.Permits, time.Duration(j.Window), j.Burst, time.Duration(j.Lease), j.Mode}
}

func (o Own) stored() ownJSON {
	stored := ownJSON{ID: []byte(o.ID), termsJSON: o.Terms.stored()}
	for _, b := range o.Before {
		stored.Before = append(stored.Before, ownPastJSON{b.Epoch, b.Terms.stored(), b.Follows})
	}
	return stored
}

func (j ownJSON) own() Own {
	o := Own{ID: string(j.ID), Terms: j.terms()}
	for _, b := range j.Before {
		o.Before = append(o.Before, OwnPast{b.Epoch, b.terms(), b.Follows})
	}
	return o
}

func (k *Keys) stored() *keysJSON {
	if k == nil {
		return nil
	}
	stored := &keysJSON{arrangementJSON: k.Arrangement.stored(), Cut: k.Cut, Since: k.Since, SinceAt: k.SinceAt,
		Upto: k.Upto}
	for _, p := range k.Before {
		stored.Before = append(stored.Before, pastJSON{
			p.Arrangement.stored(), p.Epoch, p.Spec.Permits, int64(p.Spec.Window), p.Spec.Algorithm, p.Spec.Burst,
			int64(p.Spec.Lease), p.Spec.Scope,
		})
	}
	for _, o := range k.Own {
		stored.Own = append(stored.Own, o.stored())
	}
	return stored
}

func (a Arrangement) stored() arrangementJSON {
	stored := arrangementJSON{Shards: a.Shards, Slots: a.Slots, Nodes: make([]nodeJSON, len(a.Nodes)),
		Fell: a.Fell}
	for i, n := range a.Nodes {
		stored.Nodes[i] = nodeJSON(n)
	}
	return stored
}

func (j *keysJSON) keys() *Keys {
	if j == nil {
		return nil
	}
	k := &Keys{Arrangement: j.arrangement(), Cut: j.Cut, Since: j.Since, SinceAt: j.SinceAt, Upto: j.Upto}
	for _, p := range j.Before {
		k.Before = append(k.Before, Past{p.arrangement(), p.Epoch, Spec{
			Permits: p.Permits, Window: time.Duration(p.Window), Algorithm: p.Algorithm, Burst: p.Burst,
			Lease: time.Duration(p.Lease), Scope: p.Scope,
		}})
	}
	for _, o := range j.Own {
		k.Own = append(k.Own, o.own())
	}
	return k
}

func (j arrangementJSON) arrangement() Arrangement {
	a := Arrangement{Shards: j.Shards, Slots: j.Slots, Nodes: make([]Node, len(j.Nodes)), Fell: j.Fell}
	for i, n := range j.Nodes {
		a.Nodes[i] = Node(n)
	}
	return a
}
