package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/rate"
)

// Declaration is a limit that is served: one for all, or one for each key.
type Declaration struct {
	Name   string
	PerKey bool
	Limit  shardlimit.Limit
}

// Parse reads NAME=RATE.
func Parse(s string, perKey bool) (Declaration, error) {
	i := strings.LastIndexByte(s, '=')
	if i < 1 {
		return Declaration{}, fmt.Errorf("%q is not NAME=RATE, such as mails=500/s", s)
	}
	r, err := rate.Parse(s[i+1:])
	if err != nil {
		return Declaration{}, err
	}
	return Declaration{Name: s[:i], PerKey: perKey, Limit: shardlimit.Limit{Permits: r.Permits, Per: r.Per}}, nil
}

// declarationJSON is one entry of a file of limits.
type declarationJSON struct {
	Name     string `json:"name"`
	Rate     string `json:"rate"`
	PerKey   bool   `json:"per_key"`
	Shards   int    `json:"shards"`
	Lease    string `json:"lease"`
	Revision int64  `json:"revision"`
	Scope    string `json:"scope"`
	Failover bool   `json:"failover"`
}

// ParseFile reads a file of limits: a JSON array of objects with name and rate, and
// if wanted per_key, shards, lease, revision, scope and failover.
func ParseFile(content []byte) ([]Declaration, error) {
	var all []declarationJSON
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&all); err != nil {
		return nil, err
	}
	if decoder.More() {
		return nil, errors.New("there is more after the array")
	}
	declarations := make([]Declaration, 0, len(all))
	for i, j := range all {
		d, err := j.declaration()
		if err != nil {
			return nil, fmt.Errorf("limit %d (%q): %w", i+1, j.Name, err)
		}
		declarations = append(declarations, d)
	}
	return declarations, nil
}

func (j declarationJSON) declaration() (Declaration, error) {
	d := Declaration{Name: j.Name, PerKey: j.PerKey}
	if j.Name == "" {
		return d, errors.New("it has no name")
	}
	r, err := rate.Parse(j.Rate)
	if err != nil {
		return d, err
	}
	d.Limit = shardlimit.Limit{Permits: r.Permits, Per: r.Per, Shards: j.Shards, Revision: j.Revision,
		Failover: j.Failover}
	if j.Lease != "" {
		if d.Limit.Lease, err = time.ParseDuration(j.Lease); err != nil {
			return d, fmt.Errorf("lease: %q is not a time such as 10ms", j.Lease)
		}
	}
	switch j.Scope {
	case "", shardlimit.Global.String():
	case shardlimit.PerParticipant.String():
		d.Limit.Scope = shardlimit.PerParticipant
	default:
		return d, fmt.Errorf("scope: %q is neither %s nor %s", j.Scope, shardlimit.Global, shardlimit.PerParticipant)
	}
	return d, nil
}

// Limits are the limits that are served, by name.
type Limits map[string]func(key string) (*shardlimit.Limiter, error)

// Declare makes the declarations known to Redis. While that is away they declare
// themselves later, as in the library.
func Declare(ctx context.Context, client *shardlimit.Client, all []Declaration) (Limits, error) {
	limits := make(Limits, len(all))
	for _, d := range all {
		if limits[d.Name] != nil {
			return nil, fmt.Errorf("%w: the name %q is used twice", shardlimit.ErrInvalidName, d.Name)
		}
		if d.PerKey {
			family, err := client.Family(ctx, d.Name, d.Limit)
			if err != nil {
				return nil, fmt.Errorf("limit %q: %w", d.Name, err)
			}
			limits[d.Name] = func(key string) (*shardlimit.Limiter, error) { return family.Limiter(key), nil }
			continue
		}
		limiter, err := client.Limiter(ctx, d.Name, d.Limit)
		if err != nil {
			return nil, fmt.Errorf("limit %q: %w", d.Name, err)
		}
		limits[d.Name] = func(key string) (*shardlimit.Limiter, error) {
			if key != "" {
				return nil, fmt.Errorf("%w: limit %q has no keys", shardlimit.ErrInvalidName, d.Name)
			}
			return limiter, nil
		}
	}
	return limits, nil
}
