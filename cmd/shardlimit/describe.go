package main

import (
	"fmt"
	"strings"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/draw"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/rate"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/spelling"
)

func rateOf(l shardlimit.Limit) rate.Rate { return rate.Rate{Permits: l.Permits, Per: l.Per} }

// describe is a limit in one line: 500/s, sliding-log over 8 shards, lease 10ms.
func describe(l shardlimit.Limit) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s", rateOf(l), spelling.Of(l.Algorithm))
	switch {
	case l.Scope == shardlimit.PerParticipant:
		b.WriteString(" for each participant")
	case l.Shards == 1:
		b.WriteString(" on 1 shard")
	case l.Shards > 1:
		fmt.Fprintf(&b, " over %d shards", l.Shards)
	}
	if l.Mode != shardlimit.Enforced {
		fmt.Fprintf(&b, ", %s", l.Mode)
	}
	if l.Burst > 0 {
		fmt.Fprintf(&b, ", burst %s", draw.Count(l.Burst))
	}
	if l.Lease > 0 {
		fmt.Fprintf(&b, ", lease %s", draw.Span(l.Lease))
	}
	if l.Revision > 0 {
		fmt.Fprintf(&b, ", revision %d", l.Revision)
	}
	return b.String()
}

// limitJSON is a limit as list --json prints it. The names of its fields are a promise to scripts.
type limitJSON struct {
	Name      string `json:"name"`
	Kind      string `json:"kind"` // limit or family
	Permits   int64  `json:"permits"`
	PerUS     int64  `json:"per_us"`
	Algorithm string `json:"algorithm"`
	Scope     string `json:"scope"`
	Shards    int    `json:"shards"`
	Burst     int64  `json:"burst"`
	LeaseUS   int64  `json:"lease_us"`
	Revision  int64  `json:"revision"`
	Mode      string `json:"mode"`
	Error     string `json:"error,omitempty"`
}

func asJSON(name, kind string, l shardlimit.Limit) limitJSON {
	return limitJSON{Name: name, Kind: kind, Permits: l.Permits, PerUS: l.Per.Microseconds(),
		Algorithm: l.Algorithm.String(), Scope: l.Scope.String(), Shards: l.Shards, Burst: l.Burst,
		LeaseUS: l.Lease.Microseconds(), Revision: l.Revision, Mode: l.Mode.String()}
}
