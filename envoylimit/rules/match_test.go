package rules_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/shardlimit/shardlimit/envoylimit/rules"
)

// documented is a configuration of what users of Envoy's service write.
const documented = `
domain: d
descriptors:
  - key: message_type
    value: marketing
    descriptors: [{key: to_number, rate_limit: {unit: day, requests_per_unit: 5}}]
  - {key: to_number, rate_limit: {unit: day, requests_per_unit: 100}}
  - {key: remote_address, rate_limit: {unit: second, requests_per_unit: 10}}
  - {key: remote_address, value: 50.0.0.5, rate_limit: {unit: second, requests_per_unit: 0}}
  - {key: ldap, rate_limit: {unlimited: true}}
  - key: key
    value: value
    rate_limit: {unit: second, requests_per_unit: 300}
    descriptors: [{key: subkey, rate_limit: {unit: week, requests_per_unit: 30}}]
  - {key: k, value: value*, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: k, value: /api/*/resource/*/action, rate_limit: {unit: minute, requests_per_unit: 2}}
  - {key: k, value: value1, rate_limit: {unit: minute, requests_per_unit: 3}}
  - {key: any, value: '*', rate_limit: {unit: minute, requests_per_unit: 4}}
  - {key: any, rate_limit: {unit: minute, requests_per_unit: 5}}
  - {key: files, value: files/*, share_threshold: true, rate_limit: {unit: hour, requests_per_unit: 10}}
  - key: route
    value: api/*
    share_threshold: true
    value_to_metric: true
    descriptors: [{key: method, rate_limit: {unit: minute, requests_per_unit: 60}}]
  - {key: detail, detailed_metric: true, rate_limit: {unit: minute, requests_per_unit: 10}}
  - key: path
    value_to_metric: true
    descriptors:
      - key: action
        value: read*
        value_to_metric: true
        descriptors: [{key: subject, rate_limit: {unit: minute, requests_per_unit: 60}}]
  - key: service
    descriptors:
      - {key: user, value: a, shadow_mode: true, rate_limit: {unit: second, requests_per_unit: 10}}
      - {key: user, value: b, quota_mode: true, rate_limit: {unit: month, requests_per_unit: 20}}
  - {key: a, rate_limit: {name: specific, unit: second, requests_per_unit: 5}}
  - {key: b, rate_limit: {replaces: [{name: specific}, {name: other}], unit: second, requests_per_unit: 10}}
`

func parse(t testing.TB, content string) *rules.Config {
	t.Helper()
	c, err := rules.Parse([]rules.File{{Name: "f.yaml", Content: []byte(content)}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// entries reads key=value,key=value.
func entries(s string) (all []rules.Entry) {
	for part := range strings.SplitSeq(s, ",") {
		key, value, _ := strings.Cut(part, "=")
		all = append(all, rules.Entry{Key: key, Value: value})
	}
	return all
}

func TestTheMostSpecificRuleApplies(t *testing.T) {
	config := parse(t, documented)
	for descriptor, want := range map[string]string{
		"message_type=marketing,to_number=206": "5/day d/message_type=marketing/to_number [206]" +
			" message_type_marketing.to_number",
		"to_number=206":                    "100/day d/to_number [206] to_number",
		"message_type=other,to_number=206": "none",
		"remote_address=50.0.0.5":          "0/second d/remote_address=50.0.0.5 [] remote_address_50.0.0.5",
		"ldap=x":                           "unlimited d/ldap [x] ldap",
		"key=value":                        "300/second d/key=value [] key_value",
		"key=value,subkey=s":               "30/week d/key=value/subkey [s] key_value.subkey",
		"key=value,subkey=s,more=m":        "none",
		"k=value1":                         "3/minute d/k=value1 [] k_value1",
		"k=value":                          "1/minute d/k=value* [value] k_value*",
		"k=/api/v1/resource/7/action": "2/minute d/k=%2Fapi%2F*%2Fresource%2F*%2Faction" +
			" [/api/v1/resource/7/action] k_/api/*/resource/*/action",
		"k=/api/v1/resource/action":    "none",
		"k=/api/v1/resource/7/other":   "none",
		"any=":                         "4/minute d/any=* [\"] any_*",
		"files=files/a.pdf":            "10/hour d/files=files%2F* [] files_files/*",
		"route=api/v1,method=GET":      "60/minute d/route=api%2F*/method [GET] route_api/*.method",
		"detail=x":                     "10/minute d/detail [x] detail_x",
		"path=r,action=read,subject=s": "60/minute d/path/action=read*/subject [r/read/s] path_r.action_read.subject",
		"service=s,user=a":             "10/second d/service/user=a [s] service.user_a shadow",
		"service=s,user=b":             "20/month d/service/user=b [s] service.user_b quota",
		"a=x":                          "5/second d/a [x] a named specific",
		"b=x":                          "10/second d/b [x] b for [specific other]",
	} {
		if got := describe(config.Match("d", entries(descriptor))); got != want {
			t.Errorf("%s: %s, want %s", descriptor, got, want)
		}
	}
	if got := describe(config.Match("nowhere", entries("key=value"))); got != "none" {
		t.Errorf("another domain: %s", got)
	}
}

func describe(m rules.Match, ok bool) string {
	if !ok {
		return "none"
	}
	s := fmt.Sprintf("%d/%s", m.Requests, m.Unit)
	if m.Unlimited {
		s = "unlimited"
	}
	s += fmt.Sprintf(" %s [%s] %s", m.ID, m.Key, m.Metric)
	if m.Shadow {
		s += " shadow"
	}
	if m.Quota {
		s += " quota"
	}
	if m.Name != "" {
		s += " named " + m.Name
	}
	if m.Replaces != nil {
		s += fmt.Sprintf(" for %s", m.Replaces)
	}
	return s
}

// confusing has rules that look alike: FuzzParse checks that each has an ID of its own.
const confusing = `
domain: d
descriptors:
  - key: a
    descriptors:
      - {key: b, rate_limit: {unit: second, requests_per_unit: 1}}
  - {key: a/b, rate_limit: {unit: second, requests_per_unit: 1}}
  - {key: a, value: b, rate_limit: {unit: second, requests_per_unit: 1}}
  - {key: a=b, rate_limit: {unit: second, requests_per_unit: 1}}
`

// Different values make different keys.
func TestKeysAreNotConfused(t *testing.T) {
	c := parse(t, confusing)
	seen := make(map[string]bool)
	for _, d := range []string{"a=1/x,b=y", "a=1,b=x/y", "a=,b=1/x/y", "a=1%2Fx,b=y", "a=1/x/y,b=", "a/b=", "a/b=\"",
		"a/b=\"\"", "a/b=1", "a/b=\"1"} {
		m, ok := c.Match("d", entries(d))
		if id := m.ID + " " + m.Key; !ok || seen[id] {
			t.Errorf("%s: %s", d, id)
		} else {
			seen[id] = true
		}
	}
}

// Several files may tell of one domain.
func TestDomainsCanBeMerged(t *testing.T) {
	var files []rules.File
	for _, key := range []string{"a", "b"} {
		files = append(files, rules.File{Name: key, Content: []byte("domain: d\ndescriptors:\n- &k {key: " + key +
			", rate_limit: {unit: Hour, requests_per_unit: 1}}")})
	}
	c, err := rules.Parse(files)
	if err != nil || len(c.Rules()) != 2 || !c.Known("d") || c.Known("e") {
		t.Fatal(c, err)
	}
	if _, ok := c.Match("d", entries("b=1")); !ok {
		t.Error("b is not there")
	}
}

func TestMatchAllocatesOnlyItsNames(t *testing.T) {
	c := parse(t, documented)
	fixed, open := entries("remote_address=50.0.0.5"), entries("remote_address=50.0.0.1")
	if n := testing.AllocsPerRun(100, func() { c.Match("d", fixed) }); n > 1 {
		t.Errorf("%v allocations of a fixed rule", n)
	}
	if n := testing.AllocsPerRun(100, func() { c.Match("d", open) }); n > 3 {
		t.Errorf("%v allocations of an open rule", n)
	}
}
