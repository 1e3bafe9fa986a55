package rules_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/shardlimit/shardlimit/envoylimit/rules"
)

// Whatever cannot be used is told with its place, and with what to do.
func TestMistakes(t *testing.T) {
	list := func(descriptors string) string { return "domain: d\ndescriptors:\n" + descriptors }
	limit := func(fields string) string { return list("- key: k\n  rate_limit: {" + fields + "}") }
	for _, c := range [][2]string{
		{"", "f: the file is empty; begin with a domain"},
		{"domain: d\n\tdescriptors:", "f:2: the file is not YAML: found a tab character that violates indentation; "},
		{"- a", "f:1: cannot unmarshal !!seq; correct the YAML"},
		{"descriptors: []", "f: the file has no domain; "},
		{"domain: d\ndescriptor: []", "f:2: field descriptor not found; "},
		{"domain: [d]", "f:1: cannot unmarshal !!seq into string; "},
		{"domain: d\n---\ndomain: e", "f: the file has more than one YAML document; "},
		{"domain: d\ndescriptors: &all\n- key: k\n  descriptors: *all",
			"f: the file is not YAML: anchor 'all' value contains itself; "},
		{list("- k"), "f:3: cannot unmarshal !!str `k`; "},
		{list("- value: v"), "f: a descriptor of d has no key; "},
		{list("- {key: k, value: v}\n- {key: k, value: v}"), `f:4: the descriptor "k" with value "v" is there twice; `},
		{list("- {key: k, value: '*'}\n- {key: k, value: '*'}"), `f:4: the descriptor "k" with value "*" is there`},
		{list("- key: k\n  share_threshold: true"), `f:3: share_threshold is for a value with *, `},
		{limit("requests_per_unit: 5"), "f:3: the limit has no unit; say second, "},
		{limit("unit: second"), "f:3: the limit has no requests_per_unit; "},
		{limit("unit: fortnight, requests_per_unit: 5"), `f:3: the unit "fortnight" is unknown; `},
		{limit("unit: year, requests_per_unit: 5"), `f:3: the unit "year" is unknown; say second, `},
		{limit("unit: day, unit_multiplier: 32, requests_per_unit: 5"), "f:3: 32 × day is longer than 31 days"},
		{limit("unit: day, unit_multiplier: 0, requests_per_unit: 5"), "f:3: the window has no unit; "},
		{limit("unit: second, requests_per_unit: 0.9"), `f:4: "0.9" is no whole number`},
		{limit("unit: second, requests_per_unit: 4294967296"), `f:4: "4294967296" is no whole number`},
		{limit("unit: second, unlimited: true"), "f:3: the limit has a unit and is unlimited; "},
		{limit("unit: second, requests_per_unit: 5, replaces: [{name: }]"), "f:3: an entry of replaces has no name; "},
		{limit("unit: day, requests_per_unit: 5, name: a, replaces: [{name: a}]"),
			`f:3: the limit "a" replaces itself`},
	} {
		content, want := c[0], c[1]
		_, err := rules.Parse([]rules.File{{Name: "f", Content: []byte(content)}})
		var e *rules.Error
		if !errors.Is(err, rules.ErrInvalid) || !errors.As(err, &e) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q:\n%v\nwant %s", content, err, want)
		}
	}
	d := rules.File{Name: "f", Content: []byte(list("- {key: k, rate_limit: {unlimited: true}}"))}
	if _, err := rules.Parse([]rules.File{d, d}); err == nil ||
		!strings.HasPrefix(err.Error(), `f:3: the descriptor "k" with value "" is there twice; `) {
		t.Error(err)
	}
	_, err := rules.Parse(nil)
	if err == nil || err.Error() != "there is no file; give at least one file with a domain" {
		t.Error(err)
	}
}

// FuzzParse has the parser read anything: it returns a configuration or an *Error, and what it
// returns can be asked.
func FuzzParse(f *testing.F) {
	f.Add(documented)
	f.Add(confusing)
	f.Add("domain: d\ndescriptors: &a\n- {key: k, value: 5, descriptors: *a, metadata: {x: [1]}}")
	f.Fuzz(func(t *testing.T, content string) {
		c, err := rules.Parse([]rules.File{{Name: "f", Content: []byte(content)}})
		if err != nil {
			if !errors.Is(err, rules.ErrInvalid) {
				t.Fatalf("%T %v", err, err)
			}
			return
		}
		ids := make(map[string]bool)
		for _, r := range c.Rules() {
			if ids[r.ID] || !r.Unlimited && r.Unit.Duration() == 0 {
				t.Fatalf("%+v", r)
			}
			ids[r.ID] = true
			c.Match(r.Domain, entries(strings.ReplaceAll(strings.TrimPrefix(r.ID, r.Domain+"/"), "/", ",")))
		}
	})
}
