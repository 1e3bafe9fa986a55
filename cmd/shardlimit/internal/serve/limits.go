package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/rate"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/spelling"
	"gopkg.in/yaml.v3"
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
	return entry{Name: s[:i], Rate: s[i+1:], PerKey: perKey}.declaration()
}

// entry is what a file says of a limit, with the names of the flags of shardlimit set.
type entry struct {
	Name      string        `yaml:"name"`
	Rate      string        `yaml:"rate"`
	PerKey    bool          `yaml:"per_key"`
	Algorithm string        `yaml:"algorithm"`
	Mode      string        `yaml:"mode"`
	Scope     string        `yaml:"scope"`
	Burst     whole         `yaml:"burst"`
	Shards    whole         `yaml:"shards"`
	Lease     time.Duration `yaml:"lease"`
	Revision  whole         `yaml:"revision"`
}

// whole is a number that the parser of YAML does not cut.
type whole int64

// UnmarshalYAML refuses what is not whole, or octal to some.
func (n *whole) UnmarshalYAML(node *yaml.Node) error {
	v, err := strconv.ParseInt(node.Value, 10, 64)
	if err != nil || strconv.FormatInt(v, 10) != node.Value {
		return fmt.Errorf("line %d: %q is not a whole number such as 8", node.Line, node.Value)
	}
	*n = whole(v)
	return nil
}

func (e entry) declaration() (Declaration, error) {
	d := Declaration{Name: e.Name, PerKey: e.PerKey, Limit: shardlimit.Limit{Burst: int64(e.Burst),
		Shards: int(e.Shards), Lease: e.Lease, Revision: int64(e.Revision)}}
	r, err := rate.Parse(e.Rate)
	d.Limit.Permits, d.Limit.Per = r.Permits, r.Per
	err = errors.Join(err, choose(&d.Limit.Algorithm, spelling.Algorithms(), e.Algorithm),
		choose(&d.Limit.Mode, spelling.Modes(), e.Mode), choose(&d.Limit.Scope, spelling.Scopes(), e.Scope))
	if e.Name == "" {
		err = errors.New("it has no name")
	}
	if err != nil {
		return d, fmt.Errorf("limit %q: %s", e.Name, oneLine(err))
	}
	return d, nil
}

// choose sets what a text names, if it is not empty.
func choose[T any](to *T, all map[string]T, name string) error {
	v, known := spelling.Find(all, name)
	switch {
	case known:
		*to = v
	case name != "":
		return fmt.Errorf("%q is none of %s", name, spelling.List(all))
	}
	return nil
}

// Settings are a file that says what else the command line says.
type Settings struct {
	Limits []Declaration
	Flags  map[string]Values
}

// Values are what a file says of one flag: a value, or a list of them.
type Values []string

// UnmarshalYAML takes the values as they are written.
func (v *Values) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.ScalarNode && node.Tag != "!!null" {
		*v = Values{node.Value}
		return nil
	}
	return node.Decode((*[]string)(v))
}

// ParseSettings reads a file of settings: a mapping in YAML (or JSON) from names of flags to values
// or lists of values. Under limits is a list of mappings with name and rate, and if wanted per_key,
// algorithm, burst, mode, shards, lease, revision and scope. Whether there are such flags is up to
// the caller. The error is one line, also for a field of a limit that there is not.
func ParseSettings(content []byte) (s Settings, err error) {
	type file struct {
		Limits []entry           `yaml:"limits"`
		Flags  map[string]Values `yaml:",inline"`
	}
	var document file
	if content, err = plain(content); err != nil {
		return s, err
	}
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	decoder.KnownFields(true)
	err = decoder.Decode(&document)
	if errors.Is(err, io.EOF) {
		return s, errors.New("it is empty")
	}
	if err == nil && !errors.Is(decoder.Decode(new(any)), io.EOF) {
		return s, errors.New("there is more after the end")
	}
	if err != nil {
		text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "yaml: "), "unmarshal errors:\n  ")
		return s, errors.New(wording.Replace(text))
	}
	s.Flags = document.Flags
	for _, e := range document.Limits {
		d, err := e.declaration()
		if err != nil {
			return s, err
		}
		s.Limits = append(s.Limits, d)
	}
	return s, nil
}

// wording has errors of the parser speak of the file and not of types of this program.
var wording = strings.NewReplacer("\n ", ";", " in type serve.entry", "",
	"into serve.file", "into a mapping from names of flags", "into []serve.entry", "into a list of mappings",
	"into serve.entry", "into a mapping", "into time.Duration", "into a time such as 500ms",
	"into []string", "into a list of texts")

// plain returns JSON without the escapes that a parser of YAML does not know, and anything else as
// it is.
func plain(content []byte) ([]byte, error) {
	if !bytes.ContainsRune(content, '\\') || !json.Valid(content) {
		return content, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.UseNumber()
	var document any
	if err := decoder.Decode(&document); err != nil {
		return nil, err
	}
	return json.Marshal(document)
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
