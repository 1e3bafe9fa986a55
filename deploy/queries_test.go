package deploy

import (
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/shardlimit/shardlimit/internal/limittest"
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
	limittest.Must(t, yaml.Unmarshal(content(t, "prometheus/rules.yml"), &file))
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

// known are the metrics of the pages, by their names in Prometheus, with their attributes.
func known(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	row := regexp.MustCompile("(?m)^\\| `(ratelimit[a-z.]+)` \\| (counter|gauge|histogram)(, s)? \\| ([a-z_., ]*)\\|")
	page := string(content(t, "../docs/reference/metrics.md"))
	for _, m := range row.FindAllStringSubmatch(page, -1) {
		name, ends := strings.ReplaceAll(m[1], ".", "_"), map[string][]string{"counter": {"_total"},
			"gauge": {""}, "histogram": {"_bucket", "_sum", "_count"}}[m[2]]
		if m[3] != "" {
			name += "_seconds"
		}
		for _, end := range ends {
			found[name+end] = strings.FieldsFunc(strings.ReplaceAll(m[4], ".", "_"),
				func(r rune) bool { return r == ',' || r == ' ' })
		}
	}
	envoy := string(content(t, "../docs/howto/envoy.md"))
	for name, with := range map[string][]string{"within_limit": {"domain", "descriptor"},
		"over_limit": {"domain", "descriptor"}, "config_load": {"result"}} {
		if !strings.Contains(envoy, "`"+name+"`") {
			t.Errorf("the page of Envoy has no %s", name)
		}
		found["ratelimit_service_"+name+"_total"] = with
	}
	return found
}

// Queries of the dashboard and of the rules ask for metrics that pages name, by attributes that
// these have. That pages tell the truth of them is for other tests.
func TestQueriesAskForWhatThereIs(t *testing.T) {
	metrics, rules := known(t), rulesOf(t)
	if len(metrics) < 20 {
		t.Fatalf("only %d metrics were found", len(metrics))
	}
	asked := regexp.MustCompile(`([a-z_:]*ratelimit_[a-z_0-9:]+)(?:\{([^}]*)\})?`)
	label := regexp.MustCompile(`(\w+) *[=!]`)
	check := func(place, expr string) {
		for _, m := range asked.FindAllStringSubmatch(expr, -1) {
			with, is := metrics[m[1]]
			if head, _, recorded := strings.Cut(m[1], ":"); recorded {
				_, is = rules[m[1]]
				with = strings.Split(head, "_")
			}
			if !is {
				t.Errorf("%s asks for %s, which there is not", place, m[1])
			}
			for _, l := range label.FindAllStringSubmatch(m[2], -1) {
				if l[1] != "job" && !slices.Contains(with, l[1]) {
					t.Errorf("%s asks for %s by %s", place, m[1], l[1])
				}
			}
		}
	}
	for name, expr := range rules {
		check(name, expr)
	}
	b := readBoard(t)
	for _, p := range b.Panels {
		for _, target := range p.Targets {
			check(p.Title, target.Expr)
		}
	}
	for _, v := range b.Templating.List {
		check("variable "+v.Name, v.Definition)
	}
}

// When alerts fire, and that they do not on a good day, stands in rules_test.yml.
func TestRulesFireWhenTheyShould(t *testing.T) {
	t.Parallel()
	promtool, err := exec.LookPath("promtool") // .ci/run installs it
	if err != nil {
		t.Skip(err)
	}
	for _, args := range [][]string{
		{"check", "config", "prometheus/prometheus.yml"}, {"test", "rules", "prometheus/rules_test.yml"},
	} {
		if text, err := exec.Command(promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, text)
		}
	}
}

// Every alert has a case in rules_test.yml in which it fires: a query that is answered may still
// never reach its threshold.
func TestEveryAlertHasACaseInWhichItFires(t *testing.T) {
	fire, alert := map[string]bool{}, regexp.MustCompile(`alertname="(\w+)"`)
	for check := range strings.SplitSeq(string(content(t, "prometheus/rules_test.yml")), "\n      - ") {
		if strings.HasPrefix(check, "expr:") && strings.Contains(check, `alertstate="firing"`) {
			for _, sample := range alert.FindAllStringSubmatch(check, -1) {
				fire[sample[1]] = true
			}
		}
	}
	for name := range rulesOf(t) {
		if is := strings.HasPrefix(name, "RateLimit"); is != fire[name] {
			t.Errorf("%s is an alert: %v, and fires: %v", name, is, fire[name])
		}
	}
}
