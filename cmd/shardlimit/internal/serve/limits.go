package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/shardlimit/shardlimit"
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
	return declaration(map[string]string{"name": s[:i], "rate": s[i+1:], "per_key": strconv.FormatBool(perKey)})
}

// declaration is what a file says of a limit, with the names of the flags of shardlimit set.
func declaration(said map[string]string) (d Declaration, err error) {
	d.Name = said["name"]
	if d.Name == "" {
		err = errors.New("it has no name")
	}
	if text := said["per_key"]; text != "" && err == nil {
		d.PerKey, err = strconv.ParseBool(text)
	}
	for _, field := range append(spelling.Fields, "scope") {
		if text := said[field]; err == nil && (text != "" || field == "rate") {
			err = spelling.Set(&d.Limit, field, text)
		}
		delete(said, field)
	}
	delete(said, "name")
	delete(said, "per_key")
	for field := range said {
		err = errors.Join(err, fmt.Errorf("there is no field %s", field))
	}
	if err != nil {
		err = fmt.Errorf("limit %q: %s", d.Name, oneLine(err))
	}
	return d, err
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
// the caller. The error is one line.
func ParseSettings(content []byte) (s Settings, err error) {
	type file struct {
		Limits []map[string]string `yaml:"limits"`
		Flags  map[string]Values   `yaml:",inline"`
	}
	var document file
	decoder := yaml.NewDecoder(bytes.NewReader(content))
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
		d, err := declaration(e)
		if err != nil {
			return s, err
		}
		s.Limits = append(s.Limits, d)
	}
	return s, nil
}

// wording has errors of the parser speak of the file and not of types of this program.
var wording = strings.NewReplacer("\n ", ";", "\n", " ", "into serve.file", "into a mapping from names of flags",
	"into []map[string]string", "into a list of mappings", "into map[string]string", "into a mapping",
	"into []string", "into a list of texts", "into string", "into a text")

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
