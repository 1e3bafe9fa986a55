package rules_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/shardlimit/shardlimit/envoylimit/rules"
)

// documented is configurations as users of Envoy's service write them.
var documented = map[string]string{
	"messaging": `
domain: messaging
descriptors:
  - key: message_type
    value: marketing
    descriptors:
      - key: to_number
        rate_limit: {unit: day, requests_per_unit: 5}
  - key: to_number
    rate_limit: {unit: day, requests_per_unit: 100}
`,
	"proxy": `
domain: proxy
descriptors:
  - key: remote_address
    rate_limit: {unit: second, requests_per_unit: 10}
  - key: remote_address
    value: 50.0.0.5
    rate_limit: {unit: second, requests_per_unit: 0}
  - key: ldap
    rate_limit: {unlimited: true}
`,
	"depth": `
domain: depth
descriptors:
  - key: key
    value: value
    rate_limit: {unit: second, requests_per_unit: 300}
    descriptors:
      - key: subkey
        rate_limit: {unit: week, requests_per_unit: 30}
`,
	"stars": `
domain: stars
descriptors:
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
`,
	"metrics": `
domain: metrics
descriptors:
  - {key: key1, detailed_metric: true, rate_limit: {unit: minute, requests_per_unit: 10}}
  - key: route
    value_to_metric: true
    descriptors:
      - key: action
        value: read*
        value_to_metric: true
        descriptors: [{key: subject, rate_limit: {unit: minute, requests_per_unit: 60}}]
`,
	"shadow": `
domain: shadow
descriptors:
  - key: service
    descriptors:
      - {key: user, value: a, shadow_mode: true, rate_limit: {unit: second, requests_per_unit: 10}}
      - {key: user, value: b, quota_mode: true, rate_limit: {unit: month, requests_per_unit: 20}}
`,
	"replaces": `
domain: replaces
descriptors:
  - {key: a, rate_limit: {name: specific, unit: second, requests_per_unit: 5}}
  - {key: b, rate_limit: {replaces: [{name: specific}, {name: other}], unit: second, requests_per_unit: 10}}
`,
}

func parse(t testing.TB, content string) *rules.Config {
	t.Helper()
	c, err := rules.Parse([]rules.File{{Name: "f.yaml", Content: []byte(content)}}, rules.Options{})
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
	for _, c := range []struct{ domain, descriptor, want string }{
		{"messaging", "message_type=marketing,to_number=206",
			"5/day messaging/message_type=marketing/to_number [206]" +
				" message_type_marketing.to_number"},
		{"messaging", "to_number=206", "100/day messaging/to_number [206] to_number"},
		{"messaging", "message_type=other,to_number=206", "none"},
		{"proxy", "remote_address=50.0.0.5", "0/second proxy/remote_address=50.0.0.5 [] remote_address_50.0.0.5"},
		{"proxy", "ldap=x", "unlimited proxy/ldap [x] ldap"},
		{"depth", "key=value", "300/second depth/key=value [] key_value"},
		{"depth", "key=value,subkey=s", "30/week depth/key=value/subkey [s] key_value.subkey"},
		{"depth", "key=value,subkey=s,more=m", "none"},
		{"nowhere", "key=value", "none"},
		{"stars", "k=value1", "3/minute stars/k=value1 [] k_value1"},
		{"stars", "k=value", "1/minute stars/k=value* [value] k_value*"},
		{"stars", "k=/api/v1/resource/7/action",
			"2/minute stars/k=%2Fapi%2F*%2Fresource%2F*%2Faction [/api/v1/resource/7/action] " +
				"k_/api/*/resource/*/action"},
		{"stars", "k=/api/v1/resource/action", "none"},
		{"stars", "k=/api/v1/resource/7/other", "none"},
		{"stars", "any=", "4/minute stars/any=* [\"] any_*"},
		{"stars", "files=files/a.pdf", "10/hour stars/files=files%2F* [] files_files/*"},
		{"stars", "route=api/v1,method=GET", "60/minute stars/route=api%2F*/method [GET] route_api/*.method"},
		{"metrics", "key1=x", "10/minute metrics/key1 [x] key1_x"},
		{"metrics", "route=r,action=readfile,subject=s",
			"60/minute metrics/route/action=read*/subject [r/readfile/s] route_r.action_readfile.subject"},
		{"shadow", "service=s,user=a", "10/second shadow/service/user=a [s] service.user_a shadow"},
		{"shadow", "service=s,user=b", "20/month shadow/service/user=b [s] service.user_b quota"},
		{"replaces", "a=x", "5/second replaces/a [x] a named specific"},
		{"replaces", "b=x", "10/second replaces/b [x] b for [specific other]"},
	} {
		content := documented[c.domain]
		if content == "" {
			content = documented["depth"]
		}
		m, ok := parse(t, content).Match(c.domain, entries(c.descriptor))
		if got := describe(m, ok); got != c.want {
			t.Errorf("%s %s: %s, want %s", c.domain, c.descriptor, got, c.want)
		}
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

// Different values make different keys, and different rules have different IDs.
func TestKeysAreNotConfused(t *testing.T) {
	c := parse(t, `
domain: d
descriptors:
  - key: a
    descriptors:
      - {key: b, rate_limit: {unit: second, requests_per_unit: 1}}
  - {key: a/b, rate_limit: {unit: second, requests_per_unit: 1}}
  - {key: a, value: b, rate_limit: {unit: second, requests_per_unit: 1}}
  - {key: a=b, rate_limit: {unit: second, requests_per_unit: 1}}
`)
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
	ids := make(map[string]bool)
	for _, r := range c.Rules() {
		ids[r.ID] = true
	}
	if len(ids) != 4 || c.Domains() != 1 || !c.Known("d") || c.Known("e") {
		t.Errorf("%v", ids)
	}
}

// Several files may tell of one domain, if that is wanted.
func TestDomainsCanBeMerged(t *testing.T) {
	var files []rules.File
	for _, key := range []string{"a", "b"} {
		files = append(files, rules.File{Name: key, Content: []byte("domain: d\ndescriptors:\n- &k {key: " + key +
			", rate_limit: {unit: Hour, requests_per_unit: 1}}")})
	}
	c, err := rules.Parse(files, rules.Options{MergeDomains: true})
	if err != nil || len(c.Rules()) != 2 {
		t.Fatal(err)
	}
	if _, ok := c.Match("d", entries("b=1")); !ok {
		t.Error("b is not there")
	}
}

func TestMatchAllocatesOnlyItsKey(t *testing.T) {
	c := parse(t, documented["proxy"])
	fixed, open := entries("remote_address=50.0.0.5"), entries("remote_address=50.0.0.1")
	if n := testing.AllocsPerRun(100, func() { c.Match("proxy", fixed) }); n > 0 {
		t.Errorf("%v allocations of a fixed rule", n)
	}
	if n := testing.AllocsPerRun(100, func() { c.Match("proxy", open) }); n > 3 {
		t.Errorf("%v allocations of an open rule", n)
	}
}
