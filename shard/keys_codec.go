package shard

import "time"

// keysJSON is the stored form of Keys.
type keysJSON struct {
	arrangementJSON
	Before  []pastJSON `json:"before,omitempty"`
	Since   int64      `json:"since_us,omitempty"`
	SinceAt string     `json:"since_at,omitempty"`
}

// arrangementJSON is the stored form of an Arrangement.
type arrangementJSON struct {
	Shards int        `json:"shards"`
	Even   bool       `json:"even,omitempty"`
	Slots  int        `json:"slots,omitempty"`
	Nodes  []nodeJSON `json:"nodes"`
	Fell   bool       `json:"fell,omitempty"`
}

type nodeJSON struct {
	Name   string  `json:"name"`
	Weight float64 `json:"weight"`
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

func (k *Keys) stored() *keysJSON {
	if k == nil {
		return nil
	}
	stored := &keysJSON{arrangementJSON: k.Arrangement.stored(), Since: k.Since, SinceAt: k.SinceAt}
	for _, p := range k.Before {
		stored.Before = append(stored.Before, pastJSON{
			p.Arrangement.stored(), p.Epoch, p.Spec.Permits, int64(p.Spec.Window), p.Spec.Algorithm, p.Spec.Burst,
			int64(p.Spec.Lease), p.Spec.Scope,
		})
	}
	return stored
}

func (a Arrangement) stored() arrangementJSON {
	stored := arrangementJSON{Shards: a.Shards, Even: a.Even, Slots: a.Slots, Nodes: make([]nodeJSON, len(a.Nodes)),
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
	k := &Keys{Arrangement: j.arrangement(), Since: j.Since, SinceAt: j.SinceAt}
	for _, p := range j.Before {
		k.Before = append(k.Before, Past{p.arrangement(), p.Epoch, Spec{
			Permits: p.Permits, Window: time.Duration(p.Window), Algorithm: p.Algorithm, Burst: p.Burst,
			Lease: time.Duration(p.Lease), Scope: p.Scope,
		}})
	}
	return k
}

func (j arrangementJSON) arrangement() Arrangement {
	a := Arrangement{Shards: j.Shards, Even: j.Even, Slots: j.Slots, Nodes: make([]Node, len(j.Nodes)), Fell: j.Fell}
	for i, n := range j.Nodes {
		a.Nodes[i] = Node(n)
	}
	return a
}
