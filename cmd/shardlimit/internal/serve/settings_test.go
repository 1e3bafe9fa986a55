package serve_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/serve"
)

// A file says all of a limit that code can say, and what flags say.
func TestParseSettings(t *testing.T) {
	got, err := serve.ParseSettings([]byte(`# where
redis: [a:1, "b:2"]
weight: 2.5
embedded: false
limits:
- {name: bucket, rate: 10/s, algorithm: token-bucket, burst: 50, mode: shadow, shards: 4, revision: 2}
- {name: edge, rate: 1000/d, algorithm: fixed_window}
- name: held
  rate: 500/s
  lease: 10ms
- {name: each, rate: 1/h, scope: per-participant}
- {name: users, rate: 30/m, per_key: true}
`))
	want := serve.Settings{
		Limits: []serve.Declaration{
			{Name: "bucket", Limit: shardlimit.Limit{Permits: 10, Per: time.Second, Algorithm: shardlimit.TokenBucket,
				Burst: 50, Mode: shardlimit.Shadow, Shards: 4, Revision: 2}},
			{Name: "edge", Limit: shardlimit.Limit{Permits: 1000, Per: 24 * time.Hour, Algorithm: shardlimit.FixedWindow}},
			{Name: "held", Limit: shardlimit.Limit{Permits: 500, Per: time.Second, Lease: 10 * time.Millisecond}},
			{Name: "each", Limit: shardlimit.Limit{Permits: 1, Per: time.Hour, Scope: shardlimit.PerParticipant}},
			{Name: "users", PerKey: true, Limit: shardlimit.PerMinute(30)},
		},
		Flags: map[string]serve.Values{"redis": {"a:1", "b:2"}, "weight": {"2.5"}, "embedded": {"false"}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v\nwant %+v", got, err, want)
	}
	said := map[string]bool{} // also fields that come later
	for _, d := range got.Limits {
		for field, value := range reflect.ValueOf(d.Limit).Fields() {
			said[field.Name] = said[field.Name] || !value.IsZero()
		}
	}
	for field, is := range said {
		if !is {
			t.Errorf("no file can say %s", field)
		}
	}
	got, err = serve.ParseSettings([]byte(
		`{"limits": [{"name":"mails","rate":"5/s","lease":null, "burst": 9007199254740993}], "denied": true}`))
	if err != nil || len(got.Limits) != 1 || got.Limits[0].Limit.Burst != 1<<53+1 ||
		got.Flags["denied"][0] != "true" {
		t.Errorf("of JSON: %+v, %v", got, err)
	}
}

func TestSettingsAreRefusedInOneLine(t *testing.T) {
	for text, says := range map[string]string{
		"":                                       "it is empty",
		"- a":                                    "line 1: cannot unmarshal !!seq into a mapping from names of flags",
		"a: 1\na: 2":                             "line 2: mapping key \"a\" already defined",
		"a: {b: 1}":                              "line 1: cannot unmarshal",
		"a: 1\n---\nb: 1":                        "there is more after the end",
		"a: [1":                                  "line 1: ",
		"limits: [{name: \x00}]":                 "control characters",
		"limits:\n- {name: a, rat: 1/s}":         `limit "a": rate: rate "" has no slash`,
		"limits: [{name: a, rate: 1/s, lot: 2}]": `limit "a": there is no field lot`,
		"limits: [{rate: 1/s}]":                  `limit "": it has no name`,
		"limits: [{name: a, rate: 1/s, scope: moon}]":  `limit "a": scope: "moon" is none of global, `,
		"limits: [{name: a, rate: 1/s, lease: soon}]":  `limit "a": lease: time: invalid duration "soon"`,
		"limits:\n- {name: b, rate: 1/s, shards: 010}": `limit "b": shards: "010" is not a whole number`,
		"limits: [{name: a, rate: [1]}]":               "line 1: cannot unmarshal !!seq into a text",
	} {
		if _, err := serve.ParseSettings([]byte(text)); err == nil || !strings.Contains(err.Error(), says) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, want %s", text, err, says)
		}
	}
}

func FuzzParseSettings(f *testing.F) {
	f.Add("redis: [a:1]\nlimits:\n- {name: a, rate: 1/s}")
	f.Add("&a [*a]")
	f.Add("|\n 0\n 0")
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := serve.ParseSettings([]byte(text)); err != nil && strings.Contains(err.Error(), "\n") {
			t.Error(err)
		}
	})
}
