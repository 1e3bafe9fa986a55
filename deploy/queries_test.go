package deploy

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"
)

// rulesOf are the expressions of the rules by their names; those of alerts without the threshold.
func rulesOf(t *testing.T) map[string]string {
	t.Helper()
	var file struct {
		Groups []struct {
			Rules []struct {
				Record, Alert, Expr string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(content(t, "prometheus/rules.yml"), &file); err != nil {
		t.Fatal(err)
	}
	threshold := regexp.MustCompile(` [<>] [0-9.]+$`)
	guide := string(content(t, "../docs/howto/monitor.md"))
	found := map[string]string{}
	for _, group := range file.Groups {
		for _, r := range group.Rules {
			expr := strings.TrimSpace(r.Expr)
			if r.Alert != "" {
				if !threshold.MatchString(expr) {
					t.Errorf("%s does not end with its threshold", r.Alert)
				}
				if r.Labels["severity"] == "" || r.Annotations["runbook"] == "" || r.Annotations["summary"] == "" {
					t.Errorf("%s lacks a severity, a summary or a runbook", r.Alert)
				}
				if !strings.Contains(guide, "\n### "+r.Alert+"\n") {
					t.Errorf("the guide has no section %s", r.Alert)
				}
				expr = threshold.ReplaceAllString(expr, "")
			}
			found[r.Record+r.Alert] = expr
		}
	}
	return found
}

// queriesOf are the queries of the dashboard by the titles of their panels, with every variable set
// to all that there is.
func queriesOf(t *testing.T) map[string]string {
	t.Helper()
	b := readBoard(t)
	all := strings.NewReplacer("$job", ".*", "$limiter", ".*", "$node", ".*", "$__rate_interval", "10s")
	found := map[string]string{}
	for _, p := range b.Panels {
		for i, target := range p.Targets {
			found[p.Title+" "+string(rune('A'+i))] = all.Replace(target.Expr)
		}
	}
	values := regexp.MustCompile(`^label_values\((.*), (\w+)\)$`)
	for _, v := range b.Templating.List {
		if m := values.FindStringSubmatch(v.Definition); m != nil {
			found["variable "+v.Name] = "count by (" + m[2] + ") (" + all.Replace(m[1]) + ")"
		} else if v.Type == "query" {
			t.Errorf("variable %s is %q", v.Name, v.Definition)
		}
	}
	return found
}

// Every query of the dashboard and of the rules is answered by a real Prometheus, with a number,
// from what serve and a program with the exporter of OpenTelemetry tell.
func TestEveryQueryIsAnswered(t *testing.T) {
	t.Parallel()
	program(t, "prometheus")
	queries := queriesOf(t)
	for name, expr := range rulesOf(t) {
		queries[name] = expr
	}
	for _, job := range []string{"shardlimit", "program"} {
		queries["decisions of "+job] = `ratelimit_decisions_total{job="` + job + `"}`
		queries["limit of "+job] = `ratelimit_limit{job="` + job + `"}`
	}
	served, refuse := startServe(t)
	p := startPrometheus(t, map[string]string{"shardlimit": served, "program": startProgram(t)})
	for end := time.Now().Add(patience); len(queries) > 0; time.Sleep(100 * time.Millisecond) {
		for name, expr := range queries {
			if measured(p.query(expr)) {
				delete(queries, name)
			}
		}
		if time.Now().After(end) {
			break
		}
	}
	for name, expr := range queries {
		t.Errorf("%s is not answered: %s: %v", name, expr, p.query(expr))
	}
	for _, s := range p.query("scrape_samples_scraped") {
		t.Logf("%s: %v series", s.Metric["job"], s.Value[1])
	}
	refuse()
	for end := time.Now().Add(patience); len(p.query(fires("RateLimitConfigRefused"))) == 0; time.Sleep(pause) {
		if time.Now().After(end) {
			t.Fatal("one bad file is told to nobody")
		}
	}
}

// fires asks for an alert that fires.
func fires(name string) string { return `ALERTS{alertstate="firing", alertname="` + name + `"}` }

// Every alert has a case in rules_test.yml in which it fires: a query that is answered may still
// never reach its threshold.
func TestEveryAlertHasACaseInWhichItFires(t *testing.T) {
	var file struct {
		Tests []struct {
			Checks []struct {
				Expr    string
				Samples []struct{ Labels string } `yaml:"exp_samples"`
			} `yaml:"promql_expr_test"`
		}
	}
	if err := yaml.Unmarshal(content(t, "prometheus/rules_test.yml"), &file); err != nil {
		t.Fatal(err)
	}
	fire := map[string]bool{}
	for _, test := range file.Tests {
		for _, check := range test.Checks {
			if !strings.Contains(check.Expr, `alertstate="firing"`) {
				continue
			}
			for _, s := range check.Samples {
				if _, name, ok := strings.Cut(s.Labels, `alertname="`); ok {
					name, _, _ = strings.Cut(name, `"`)
					fire[name] = true
				}
			}
		}
	}
	for name := range rulesOf(t) {
		if alert := strings.HasPrefix(name, "RateLimit"); alert != fire[name] {
			t.Errorf("%s is an alert: %v, and fires: %v", name, alert, fire[name])
		}
	}
}
