package serve_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/serve"
)

func TestParseSettings(t *testing.T) {
	got, err := serve.ParseSettings([]byte(`# where
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
		Flags: map[string]serve.Values{"redis": {"a:1", "b:2"}, "listen": {"0.0.0.0:8080"}, "weight": {"2.5"},
			"embedded": {"false"}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v\nwant %+v", got, err, want)
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
		"a: [[1]]":                               "line 1: cannot unmarshal",
		"a: 1\n---\nb: 1":                        "there is more after the end",
		"a: [1":                                  "line 1: ",
		"limits: mails":                          "line 1: cannot unmarshal",
		"limits: [{name: \x00}]":                 "control characters",
		"limits:\n- {name: a, rat: 1/s}":         `limit "a": rate: rate "" has no slash`,
		"limits: [{name: a, rate: 1/s, lot: 2}]": `limit "a": there is no field lot`,
		"limits: [{rate: 1/s}]":                  `limit "": it has no name`,
		"limits: [{name: a}]":                    `limit "a": rate: rate "" has no slash`,
		"limits: [{name: a, rate: 1/s, scope: moon}]":       `limit "a": scope: "moon" is none of global, `,
		"limits: [{name: a, rate: 1/s, algorithm: bucket}]": `limit "a": algorithm: "bucket" is none of fixed-window, `,
		"limits: [{name: a, rate: 1/s, mode: shade}]":       `limit "a": mode: "shade" is none of closed, enforced, `,
		"limits: [{name: a, rate: 1/s, lease: soon}]":       `limit "a": lease: time: invalid duration "soon"`,
		"limits:\n- {name: b, rate: 1/s, shards: 1.7}":      `limit "b": shards: "1.7" is not a whole number`,
		"limits:\n- {name: b, rate: 1/s, shards: 010}":      `limit "b": shards: "010" is not a whole number`,
		"limits: [{name: a, rate: [1]}]":                    "line 1: cannot unmarshal !!seq into a text",
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
