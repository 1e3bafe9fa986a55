package serve

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/rate"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/spelling"
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

// entry is a limit in a file of limits. What it says of the limit has the names of the flags of
// shardlimit set.
type entry struct {
	Name      string `json:"name" yaml:"name"`
	Rate      string `json:"rate" yaml:"rate"`
	PerKey    bool   `json:"per_key" yaml:"per_key"`
	Algorithm string `json:"algorithm" yaml:"algorithm"`
	Burst     int64  `json:"burst" yaml:"burst"`
	Mode      string `json:"mode" yaml:"mode"`
	Shards    int    `json:"shards" yaml:"shards"`
	Lease     string `json:"lease" yaml:"lease"`
	Revision  int64  `json:"revision" yaml:"revision"`
	Scope     string `json:"scope" yaml:"scope"`
}

// ParseFile reads a file of limits: a list, in YAML or JSON, of objects with name and rate, and
// if wanted per_key, algorithm, burst, mode, shards, lease, revision and scope.
// The error is ErrInvalidFile, in one line, also for a field that there is not.
func ParseFile(content []byte) ([]Declaration, error) {
	var all []entry
	read := readYAML
	if text := bytes.TrimSpace(content); len(text) > 0 && (text[0] == '[' || text[0] == '{') {
		read = readJSON
	}
	if err := read(content, &all); err != nil {
		return nil, err
	}
	return declarations(all)
}

func declarations(all []entry) ([]Declaration, error) {
	made := make([]Declaration, 0, len(all))
	for i, e := range all {
		d, err := e.declaration()
		if err != nil {
			return nil, invalid("limit %d (%q): %w", i+1, e.Name, err)
		}
		made = append(made, d)
	}
	return made, nil
}

func (j entry) declaration() (Declaration, error) {
	d := Declaration{Name: j.Name, PerKey: j.PerKey}
	if j.Name == "" {
		return d, errors.New("it has no name")
	}
	r, err := rate.Parse(j.Rate)
	d.Limit = shardlimit.Limit{Permits: r.Permits, Per: r.Per, Burst: j.Burst, Shards: j.Shards,
		Revision: j.Revision}
	return d, cmp.Or(err, // the first is told
		choose(&d.Limit.Algorithm, spelling.Algorithms(), "algorithm", j.Algorithm),
		choose(&d.Limit.Mode, spelling.Modes(), "mode", j.Mode),
		choose(&d.Limit.Scope, spelling.Scopes(), "scope", j.Scope),
		span(&d.Limit.Lease, "lease", j.Lease))
}

// choose sets what a field names, if it is there.
func choose[T any](to *T, all map[string]T, field, name string) error {
	if name == "" {
		return nil
	}
	v, known := spelling.Find(all, name)
	if !known {
		return fmt.Errorf("%s: %q is none of %s", field, name, spelling.List(all))
	}
	*to = v
	return nil
}

// span sets the time that a field says, if it is there.
func span(to *time.Duration, field, text string) (err error) {
	if text == "" {
		return nil
	}
	if *to, err = time.ParseDuration(text); err != nil {
		return fmt.Errorf("%s: %q is not a time such as 10ms", field, text)
	}
	return nil
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
