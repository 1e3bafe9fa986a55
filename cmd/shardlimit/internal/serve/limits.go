package serve

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

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

// fields are what a file says of a limit, with the names of the flags of shardlimit set.
var fields = map[string]func(d *Declaration, text string) error{
	"name": func(d *Declaration, text string) error { d.Name = text; return nil },
	"rate": func(d *Declaration, text string) error {
		r, err := rate.Parse(text)
		d.Limit.Permits, d.Limit.Per = r.Permits, r.Per
		return err
	},
	"per_key": func(d *Declaration, text string) (err error) {
		if d.PerKey, err = strconv.ParseBool(text); err != nil { // as flags are read
			return fmt.Errorf("%q is neither true nor false", text)
		}
		return nil
	},
	"algorithm": func(d *Declaration, text string) error {
		return choose(&d.Limit.Algorithm, spelling.Algorithms(), text)
	},
	"mode":     func(d *Declaration, text string) error { return choose(&d.Limit.Mode, spelling.Modes(), text) },
	"scope":    func(d *Declaration, text string) error { return choose(&d.Limit.Scope, spelling.Scopes(), text) },
	"burst":    func(d *Declaration, text string) error { return whole(&d.Limit.Burst, text) },
	"shards":   func(d *Declaration, text string) error { return whole(&d.Limit.Shards, text) },
	"revision": func(d *Declaration, text string) error { return whole(&d.Limit.Revision, text) },
	"lease": func(d *Declaration, text string) (err error) {
		if d.Limit.Lease, err = time.ParseDuration(text); err != nil {
			return fmt.Errorf("%q is not a time such as 10ms", text)
		}
		return nil
	},
}

// ParseFile reads a file of limits: a list, in YAML or JSON, of mappings with name and rate, and
// if wanted per_key, algorithm, burst, mode, shards, lease, revision and scope.
// The error is ErrInvalidFile, in one line, also for a field that there is not.
func ParseFile(path string, content []byte) ([]Declaration, error) {
	f := file(path)
	list, err := f.read(content)
	if err != nil {
		return nil, err
	}
	return f.limits(list)
}

func (f file) limits(list *yaml.Node) ([]Declaration, error) {
	const example = "such as [{name: mails, rate: 500/s}]"
	if list.Kind != yaml.SequenceNode {
		return nil, f.invalid(list, "the limits are not a list, %s", example)
	}
	all := make([]Declaration, len(list.Content))
	for i, limit := range list.Content {
		if limit.Kind != yaml.MappingNode {
			return nil, f.invalid(limit, "a limit is not a mapping, %s", example)
		}
		d := &all[i]
		if err := f.each(limit, func(name, value *yaml.Node) error { return f.set(d, name, value) }); err != nil {
			return nil, err
		}
		if d.Name == "" || d.Limit.Permits == 0 {
			return nil, f.invalid(limit, "a limit has a name and a rate, %s", example)
		}
	}
	return all, nil
}

// set takes in a field of a limit. One without a value is as if left out.
func (f file) set(d *Declaration, name, value *yaml.Node) error {
	set := fields[name.Value]
	switch {
	case set == nil:
		return f.invalid(name, "there is no field %q; there are %s", name.Value, spelling.List(fields))
	case value.Kind != yaml.ScalarNode:
		return f.invalid(value, "%s: it is not one value", name.Value)
	case value.Tag == "!!null":
		return nil
	}
	if err := set(d, value.Value); err != nil {
		return f.invalid(value, "%s: %w", name.Value, err)
	}
	return nil
}

// choose sets what a text names.
func choose[T any](to *T, all map[string]T, name string) error {
	v, known := spelling.Find(all, name)
	if !known {
		return fmt.Errorf("%q is none of %s", name, spelling.List(all))
	}
	*to = v
	return nil
}

// whole sets a number. One with a leading 0 is refused, as it is octal to some.
func whole[T int | int64](to *T, text string) error {
	n, _ := strconv.ParseInt(text, 10, 64)
	if *to = T(n); strconv.FormatInt(int64(*to), 10) != text {
		return fmt.Errorf("%q is not a whole number such as 8", text)
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
