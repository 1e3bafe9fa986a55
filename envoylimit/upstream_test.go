package envoylimit_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/envoylimit"
)

// documented is a behaviour that envoyproxy/ratelimit describes, played with the options under
// which this service does the same: FixedWindow and Each.
type documented struct {
	name   string
	config string // below "domain: d\ndescriptors:\n"
	steps  []step
}

// Where a step says less than upstream answers or more, docs/howto/envoy.md says so.
var upstream = []documented{
	{"a limit for each value", "- {key: account, rate_limit: {unit: day, requests_per_unit: 2}}", []step{
		{ask("d", "account=a"), "OK ok:1"}, {ask("d", "account=a"), "OK ok:0"},
		{ask("d", "account=a"), "OVER_LIMIT over:0"}, {ask("d", "account=b"), "OK ok:1"},
	}},
	{"what no rule names is OK and has no limit",
		"- {key: account, value: a, rate_limit: {unit: day, requests_per_unit: 1}}",
		[]step{{ask("d", "account=b"), "OK ok"}, {ask("d", "tenant=a"), "OK ok"}, {ask("other", "account=a"), "OK ok"},
			{ask("d", "account=a,tenant=a"), "OK ok"}}},
	{"a value goes before the key alone", "- {key: account, rate_limit: {unit: day, requests_per_unit: 5}}\n" +
		"- {key: account, value: trial, rate_limit: {unit: day, requests_per_unit: 1}}", []step{
		{ask("d", "account=trial"), "OK ok:0"}, {ask("d", "account=trial"), "OVER_LIMIT over:0"},
		{ask("d", "account=other"), "OK ok:4"},
	}},
	{"nested ones need all levels", "- key: account\n  value: trial\n  descriptors:\n" +
		"  - {key: call, value: send, rate_limit: {unit: day, requests_per_unit: 1}}\n" +
		"  - {key: call, rate_limit: {unit: day, requests_per_unit: 3}}", []step{
		{ask("d", "account=trial"), "OK ok"}, {ask("d", "call=send"), "OK ok"},
		{ask("d", "call=send,account=trial"), "OK ok"}, {ask("d", "account=trial,call=send"), "OK ok:0"},
		{ask("d", "account=trial,call=send"), "OVER_LIMIT over:0"}, {ask("d", "account=trial,call=read"), "OK ok:2"},
		{ask("d", "account=paid,call=send"), "OK ok"},
	}},
	{"each value of a wildcard has the limit",
		"- {key: route, value: api/*, rate_limit: {unit: day, requests_per_unit: 1}}",
		[]step{{ask("d", "route=api/a"), "OK ok:0"}, {ask("d", "route=api/a"), "OVER_LIMIT over:0"},
			{ask("d", "route=api/b"), "OK ok:0"}, {ask("d", "route=web/a"), "OK ok"}}},
	{"with share_threshold all values share it",
		"- {key: route, value: api/*, share_threshold: true, rate_limit: {unit: day, requests_per_unit: 2}}",
		[]step{{ask("d", "route=api/a"), "OK ok:1"}, {ask("d", "route=api/b"), "OK ok:0"},
			{ask("d", "route=api/c"), "OVER_LIMIT over:0"}}},
	{"unlimited", "- {key: account, rate_limit: {unit: day, requests_per_unit: 1}}\n" +
		"- {key: account, value: root, rate_limit: {unlimited: true}}", []step{
		{ask("d", "account=root"), "OK ok:max"}, {hits(ask("d", "account=root"), 1e9), "OK ok:max"},
	}},
	{"a limit of nothing", "- {key: account, value: banned, rate_limit: {unit: day, requests_per_unit: 0}}", []step{
		{ask("d", "account=banned"), "OVER_LIMIT over:0"},
	}},
	{"shadow_mode counts and refuses nothing",
		"- {key: account, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 1}}\n" +
			"- {key: call, rate_limit: {unit: day, requests_per_unit: 3}}", []step{
			{ask("d", "account=a"), "OK ok:0"}, {ask("d", "account=a"), "OK ok:0"},
			{ask("d", "account=a", "call=x"), "OK ok:0 ok:2"},
		}},
	{"replaces puts another rule of the request out of force",
		"- {key: account, rate_limit: {name: usual, unit: day, requests_per_unit: 1}}\n" +
			"- {key: burst, rate_limit: {unit: day, requests_per_unit: 4, replaces: [{name: usual}]}}", []step{
			{ask("d", "account=a"), "OK ok:0"}, {ask("d", "account=a"), "OVER_LIMIT over:0"},
			{ask("d", "account=a", "burst=a"), "OK ok ok:3"}, {ask("d", "burst=a"), "OK ok:2"},
		}},
	{"one descriptor over its limit refuses the request, and all are charged",
		"- {key: account, rate_limit: {unit: day, requests_per_unit: 1}}\n" +
			"- {key: call, rate_limit: {unit: day, requests_per_unit: 9}}", []step{
			{ask("d", "account=a", "call=x"), "OK ok:0 ok:8"},
			{ask("d", "account=a", "call=x"), "OVER_LIMIT over:0 ok:7"},
			{ask("d", "call=x"), "OK ok:6"},
		}},
	{"hits_addend of the request and of a descriptor",
		"- {key: account, rate_limit: {unit: day, requests_per_unit: 9}}",
		[]step{{&rls.RateLimitRequest{Domain: "d", HitsAddend: 3, Descriptors: ask("", "account=a").Descriptors},
			"OK ok:6"},
			{hits(ask("d", "account=a"), 2), "OK ok:4"}, {ask("d", "account=a"), "OK ok:3"},
			{hits(ask("d", "account=a"), 0), "OK ok:3"}, {hits(ask("d", "account=a"), 3), "OK ok:0"}}},
}

func TestWhatUpstreamDocuments(t *testing.T) {
	everywhere(t, func(t *testing.T, client *shardlimit.Client) {
		for i, c := range upstream {
			t.Run(c.name, func(t *testing.T) {
				// limits of other cases have other names, as each has a domain of its own
				domain := fmt.Sprint("d", i)
				s := start(t, client, "domain: "+domain+"\ndescriptors:\n"+c.config+"\n", envoylimit.Options{
					Algorithm: shardlimit.FixedWindow, Charge: envoylimit.Each})
				for n, step := range c.steps {
					if step.ask.Domain == "d" {
						step.ask = &rls.RateLimitRequest{Domain: domain, Descriptors: step.ask.Descriptors,
							HitsAddend: step.ask.HitsAddend}
					}
					if got := verdict(t, s, step.ask); got != step.want {
						t.Errorf("step %d: %s, want %s", n, got, step.want)
					}
				}
			})
		}
	})
}

// xRateLimit is what Envoy makes of an answer for its headers x-ratelimit-limit, -remaining and
// -reset: it tells of the descriptor that has least left.
func xRateLimit(a *rls.RateLimitResponse) (limit, remaining uint32, reset time.Duration) {
	var least *rls.RateLimitResponse_DescriptorStatus
	for _, st := range a.GetStatuses() {
		if st.GetCurrentLimit() != nil && (least == nil || st.GetLimitRemaining() < least.GetLimitRemaining()) {
			least = st
		}
	}
	return least.GetCurrentLimit().GetRequestsPerUnit(), least.GetLimitRemaining(),
		least.GetDurationUntilReset().AsDuration()
}

// Envoy can tell clients limit, rest and time, and the time is that of the window's end.
func TestWhatEnvoyTellsClients(t *testing.T) {
	everywhere(t, func(t *testing.T, client *shardlimit.Client) {
		s := start(t, client, strings.ReplaceAll(`domain: d
descriptors:
- {key: account, rate_limit: {unit: UNIT, requests_per_unit: 2}}
- {key: call, rate_limit: {unit: UNIT, requests_per_unit: 9}}
- {key: root, rate_limit: {unlimited: true}}
`, "UNIT", "day"), envoylimit.Options{Algorithm: shardlimit.FixedWindow, Charge: envoylimit.Each})
		for i, want := range []struct{ limit, remaining uint32 }{{2, 1}, {2, 0}, {2, 0}} {
			before := time.Now()
			a, err := s.ShouldRateLimit(t.Context(), ask("d", "call=x", "root=x", "other=x", "account=a"))
			if err != nil {
				t.Fatal(err)
			}
			limit, remaining, reset := xRateLimit(a)
			if limit != want.limit || remaining != want.remaining {
				t.Errorf("answer %d tells of %d of %d", i, remaining, limit)
			}
			end := before.Truncate(24 * time.Hour).Add(24 * time.Hour)
			if off := before.Add(reset).Sub(end); off < -time.Minute || off > time.Minute {
				t.Errorf("answer %d is reset in %s, and the day ends in %s", i, reset, end.Sub(before))
			}
		}
	})
}
