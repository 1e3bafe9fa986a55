package deploy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// patience is what a busy machine is given.
const patience = 3 * time.Minute

// promtool and prometheus come from one package; .ci/run installs it.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("needs %s on the PATH: %v", name, err)
	}
	return path
}

// When alerts fire, and that they do not on a good day, stands in rules_test.yml.
func TestRulesFireWhenTheyShould(t *testing.T) {
	t.Parallel()
	promtool := program(t, "promtool")
	for _, args := range [][]string{
		{"check", "config", "prometheus/prometheus.yml"}, {"test", "rules", "prometheus/rules_test.yml"},
	} {
		if text, err := exec.Command(promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, text)
		}
	}
}

// prometheus is a running one.
type prometheus struct {
	t   *testing.T
	url string
	out bytes.Buffer
}

// startPrometheus starts one that scrapes jobs at addresses and evaluates the rules, all the time.
func startPrometheus(t *testing.T, jobs map[string]string) *prometheus {
	t.Helper()
	path, dir := program(t, "prometheus"), t.TempDir()
	rules, err := filepath.Abs("prometheus/rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	// A program that is short of processor time takes a second to tell all.
	config := "global: {scrape_interval: 2s, scrape_timeout: 2s, evaluation_interval: 500ms}\n" +
		"rule_files: ['" + rules + "']\nscrape_configs:\n"
	for job, address := range jobs {
		config += fmt.Sprintf("- {job_name: %s, static_configs: [{targets: ['%s']}]}\n", job, address)
	}
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &prometheus{t: t}
	for range 5 { // a port can be lost between choice and use
		address := freeAddress(t)
		p.url = "http://" + address
		cmd := exec.Command(path, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"),
			"--web.listen-address="+address, "--log.level=warn")
		cmd.Stdout, cmd.Stderr = &p.out, &p.out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			_ = cmd.Wait()
			close(ended)
		}()
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			<-ended
		})
		if p.ready(ended) {
			return p
		}
	}
	t.Fatalf("prometheus does not start:\n%s", &p.out)
	return nil
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// ready waits until it answers, and reports false if it ended.
func (p *prometheus) ready(ended chan struct{}) bool {
	for end := time.Now().Add(patience); time.Now().Before(end); {
		select {
		case <-ended:
			return false
		case <-time.After(50 * time.Millisecond):
		}
		if answer, err := http.Get(p.url + "/-/ready"); err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return true
			}
		}
	}
	return false
}

// sample is one series of an answer.
type sample struct {
	Metric map[string]string
	Value  [2]any
}

// query asks for what there is now. A query that cannot be read ends the test.
func (p *prometheus) query(expr string) []sample {
	p.t.Helper()
	answer, err := http.PostForm(p.url+"/api/v1/query", url.Values{"query": {expr}})
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	var found struct {
		Status, Error string
		Data          struct{ Result []sample }
	}
	if err := json.NewDecoder(answer.Body).Decode(&found); err != nil {
		p.t.Fatal(err)
	}
	if found.Status != "success" {
		p.t.Fatalf("%s: %s", expr, found.Error)
	}
	return found.Data.Result
}

// measured reports whether an answer has a number.
func measured(all []sample) bool {
	for _, s := range all {
		if s.Value[1] != "NaN" {
			return true
		}
	}
	return false
}
