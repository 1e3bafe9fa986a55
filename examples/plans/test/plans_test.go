// Package test runs the program plans as an operator does.
package test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/embedded"
)

// gateway is a running program with its database, outside of the repository.
type gateway struct {
	t               *testing.T
	program, folder string
	address         string
	end             func()
	slow            bool // a decision took too long, so that it knew nothing of other nodes
}

// must fails the test if there is an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func start(t *testing.T, program string) *gateway {
	t.Helper()
	g := &gateway{t: t, program: program, folder: t.TempDir()}
	schema, err := os.ReadFile("../shop.sql")
	must(t, err)
	g.sql(string(schema))
	servers, err := embedded.Start(2)
	must(t, err)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	g.address = listener.Addr().String()
	log, err := os.Create(filepath.Join(g.folder, "log"))
	must(t, errors.Join(err, listener.Close()))
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env = append(g.env(), "REDIS="+servers.Addr(0)+","+servers.Addr(1), "LISTEN="+g.address)
	cmd.Stdout, cmd.Stderr = log, log
	must(t, cmd.Start())
	g.end = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = log.Close()
		servers.Close()
	}
	return g
}

func (g *gateway) env() []string {
	return append(os.Environ(), "DB="+filepath.Join(g.folder, "shop.db"))
}

func (g *gateway) log() string {
	text, err := os.ReadFile(filepath.Join(g.folder, "log"))
	if err != nil {
		g.t.Error(err)
	}
	return string(text)
}

// sql has the program execute statements, as an operator changes a plan.
func (g *gateway) sql(statements string) {
	g.t.Helper()
	file := filepath.Join(g.folder, "change.sql")
	must(g.t, os.WriteFile(file, []byte(statements), 0o600))
	cmd := exec.CommandContext(g.t.Context(), g.program, file)
	cmd.Env = g.env()
	if out, err := cmd.CombinedOutput(); err != nil {
		g.t.Fatalf("%v: %s", err, out)
	}
}

// order makes a request, and returns its status, and which limit has how much left; 0 if nobody
// listens.
func (g *gateway) order(key string) (status int, left string) {
	g.t.Helper()
	request, err := http.NewRequestWithContext(g.t.Context(), http.MethodPost, "http://"+g.address+"/orders", nil)
	must(g.t, err)
	request.Header.Set("X-API-Key", key)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, ""
	}
	_, _ = io.Copy(io.Discard, answer.Body)
	_ = answer.Body.Close()
	quota, _, _ := strings.Cut(answer.Header.Get("RateLimit-Policy"), ";w=")
	rest, _, _ := strings.Cut(answer.Header.Get("RateLimit"), ";t=")
	if _, rest, _ = strings.Cut(rest, ";"); rest == "" {
		g.slow = true
	}
	return answer.StatusCode, strings.ReplaceAll(quota, `"`, "") + ";" + rest
}

// until orders until something is so, and says what was not seen.
func (g *gateway) until(what, key string, is func(status int, left string) bool) error {
	status, left := 0, ""
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if status, left = g.order(key); is(status, left) {
			return nil
		}
		if g.late() {
			break
		}
	}
	return fmt.Errorf("not seen within a minute: %s; last was %d %s", what, status, left)
}

// late reports whether the machine was too slow for the call timeout: a call whose answer is lost
// may have spent a permit.
func (g *gateway) late() bool { return strings.Contains(g.log(), "does not answer") }

// A request has the limit of its customer's plan, as the database has it now. An unknown key is
// refused before a plan is charged. Known customers go on without the database.
func TestPlansComeFromTheDatabase(t *testing.T) {
	program := filepath.Join(t.TempDir(), "plans")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", program, "..").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for range 10 { // until the machine is quick enough for the call timeout
		g := start(t, program)
		err := g.play()
		text, late := g.log(), g.slow || g.late()
		g.end()
		if err == nil {
			return
		}
		if !late {
			t.Fatalf("%v\n%s", err, text)
		}
	}
	t.Error("every time a decision took too long")
}

func (g *gateway) play() error {
	if err := g.until("a gateway that knows its nodes", "guessed", func(status int, left string) bool {
		return status == http.StatusUnauthorized && strings.HasPrefix(left, "address;q=1200;r=")
	}); err != nil {
		return err
	}
	g.slow = false
	var errs []error
	answers := func(key string, status int, left string) {
		if got, said := g.order(key); got != status || said != left {
			errs = append(errs, fmt.Errorf("%s: %d %s, want %d %s", key, got, said, status, left))
		}
	}
	for i := range 3 {
		answers("ann-key", http.StatusAccepted, fmt.Sprintf("plan;q=3;r=%d", 2-i))
	}
	answers("ann-key", http.StatusTooManyRequests, "plan;q=3;r=0")
	// What was used counts. A change of the plan is felt, and one of which plan it is.
	for _, change := range []struct {
		statements, key string
		status          int // 0: any
		left            string
	}{
		{"UPDATE customers SET plan = 'gold', changed = 2 WHERE id = 'ann'", "ann-key", 202, "plan;q=100;r=96"},
		{"UPDATE plans SET permits = 50, changed = 3 WHERE name = 'gold'", "ann-key", 0, "plan;q=50;"},
		{"UPDATE customers SET plan = 'trial', changed = 4 WHERE id = 'ann'", "ann-key", 429, "plan;q=3;r=0"},
		{"UPDATE customers SET plan = 'gold', changed = 5 WHERE id = 'ann'", "ann-key", 0, "plan;q=50;"},
		{"ALTER TABLE customers RENAME TO away", "bob-key", 503, "address;"},
		{"", "ann-key", 0, "plan;q=50;"},
		{"ALTER TABLE away RENAME TO customers; DELETE FROM customers WHERE id = 'ann'", "ann-key", 401, "address;"},
	} {
		g.sql(change.statements)
		stayed := change.statements == "" // without the database the former plan is in force
		if err := g.until(change.statements, change.key, func(status int, left string) bool {
			is := (status == change.status || change.status == 0) && strings.HasPrefix(left, change.left)
			// The first answer by the new plan has another rest where FailLocal answered a call
			// that was late.
			if !is && change.status == http.StatusAccepted && strings.HasPrefix(left, "plan;q=100;") {
				g.slow = true
				errs = append(errs, fmt.Errorf("after %s: %d %s", change.statements, status, left))
				return true
			}
			if stayed && status > 0 && !is {
				errs = append(errs, fmt.Errorf("without the database a known customer: %d %s", status, left))
			}
			return is && (!stayed || strings.Contains(g.log(), "goes on with the former plan"))
		}); err != nil {
			return errors.Join(append(errs, err)...)
		}
	}
	answers("bob-key", http.StatusAccepted, "plan;q=50;r=49")
	for range 1500 {
		if status, _ := g.order("guessed"); status == http.StatusTooManyRequests {
			return errors.Join(errs...)
		}
	}
	return errors.Join(append(errs, errors.New("1,500 guesses have passed"))...)
}
