package serve_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/serve"
)

func TestParseSettings(t *testing.T) {
	got, err := serve.ParseSettings("f", []byte(`# where
redis: [a:1, "b:2"]
listen: 0.0.0.0:8080
weight: 2.5
embedded: false
limits:
  - {name: mails, rate: 500/s, shards: 8}
  - name: users
    rate: 30/m
    per_key: true
`))
	want := serve.Settings{
		Limits: []serve.Declaration{
			{Name: "mails", Limit: shardlimit.Limit{Permits: 500, Per: shardlimit.PerSecond(1).Per, Shards: 8}},
			{Name: "users", PerKey: true, Limit: shardlimit.PerMinute(30)},
		},
		Flags: []serve.Setting{
			{Name: "redis", Values: []string{"a:1", "b:2"}, Line: 2},
			{Name: "listen", Values: []string{"0.0.0.0:8080"}, Line: 3},
			{Name: "weight", Values: []string{"2.5"}, Line: 4}, {Name: "embedded", Values: []string{"false"}, Line: 5},
		},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v\nwant %+v", got, err, want)
	}
}

func TestSettingsAreRefusedInOneLine(t *testing.T) {
	for text, says := range map[string]string{
		"":                               "f: it is empty",
		"- a":                            "f:1: the file is not a mapping",
		"a: 1\na: 2":                     "f:2: a is there twice",
		"a: {b: 1}":                      "f:1: a is neither a value nor a list",
		"a: [[1]]":                       "f:1: a is neither",
		"a:":                             "f:1: a is neither",
		"a: 1\n---\nb: 1":                "f:2: there is more",
		"a: [1":                          "f:1: ",
		"limits: mails":                  "f:1: the limits are not a list",
		"limits:\n- {name: a, rat: 1/s}": `f:2: there is no field "rat"`,
		"limits:\n- {name: a, rate: 1/s}\n- {name: b, rate: 1/s, shards: x}": `f:3: shards: "x" is not a whole number`,
	} {
		_, err := serve.ParseSettings("f", []byte(text))
		if !errors.Is(err, serve.ErrInvalidFile) || !strings.Contains(err.Error(), says) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzParseSettings(f *testing.F) {
	f.Add("redis: [a:1]\nlimits:\n- {name: a, rate: 1/s}")
	f.Add("&a [*a]")
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := serve.ParseSettings("f", []byte(text)); err != nil && !errors.Is(err, serve.ErrInvalidFile) {
			t.Error(err)
		}
	})
}
