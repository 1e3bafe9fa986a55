package httplimit_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/httplimit"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// fleetVariable makes this test binary a process of a fleet instead: it makes requests when its
// standard input says so, until that ends.
const fleetVariable = "SHARDLIMIT_TEST_FLEET"

// fleetJob is what a process of the fleet is to know.
type fleetJob struct{ Redis, URL string }

func init() {
	if text, ok := os.LookupEnv(fleetVariable); ok {
		if err := beOfFleet(text, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// beOfFleet makes requests through a Transport, one after the other: as many as each line says.
// After each it says "served", or what went wrong, and "paused" as soon as the fleet knows of a
// pause.
func beOfFleet(text string, orders io.Reader, out io.Writer) error {
	var j fleetJob
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	client, err := shardlimit.New(shardlimit.Config{CallTimeout: time.Minute, Nodes: []shardlimit.Node{
		{Redis: redistest.Slim(rueidis.ClientOption{InitAddress: []string{j.Redis}, ForceSingleClient: true})}}})
	if err != nil {
		return err
	}
	defer client.Close()
	pauses, err := httplimit.SharedPauses(context.Background(), client, "pauses", time.Minute)
	if err != nil {
		return err
	}
	hosts, err := client.Family(context.Background(), "hosts", shardlimit.PerSecond(10_000))
	if err != nil {
		return err
	}
	web := http.Client{Transport: &httplimit.Transport{Pauses: pauses, Retries: 1,
		Permits: httplimit.WaitPerKey(hosts, httplimit.Host),
		OnPause: func(_ *http.Request, _ int, _ time.Duration, err error) { fmt.Fprintln(out, "paused", err) }}}
	for {
		var n int
		if _, err := fmt.Fscanln(orders, &n); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		for range n {
			fmt.Fprintln(out, fetched(&web, j.URL))
		}
	}
}

// fetched is "served", or why it was not.
func fetched(web *http.Client, url string) string {
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, url, strings.NewReader("a body"))
	if err != nil {
		return err.Error()
	}
	answer, err := web.Do(r)
	if err != nil {
		return err.Error()
	}
	body, err := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	if err != nil || answer.StatusCode != http.StatusOK {
		return fmt.Sprint(answer.Status, body, err)
	}
	return string(body)
}

// ofFleet is a process of the fleet.
type ofFleet struct {
	orders io.WriteCloser
	said   *bufio.Scanner
}

// enlist starts a process. It ends when its input does, so also when this binary dies.
func enlist(t *testing.T, j fleetJob) *ofFleet {
	t.Helper()
	text, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fleetVariable+"="+string(text), "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	orders, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = orders.Close()
		_ = cmd.Wait()
	})
	return &ofFleet{orders: orders, said: bufio.NewScanner(out)}
}

// order has the process make n requests.
func (p *ofFleet) order(t *testing.T, n int) {
	t.Helper()
	if _, err := fmt.Fprintln(p.orders, n); err != nil {
		t.Error(err)
	}
}

// hear is the next thing that the process says.
func (p *ofFleet) hear() string {
	if !p.said.Scan() {
		return fmt.Sprint("it ended: ", p.said.Err())
	}
	return p.said.Text()
}

// strict is a server that serves, but for one request, which it asks to come back later; until then
// it wants to hear from nobody.
type strict struct {
	mu     sync.Mutex
	refuse bool      // the next request
	open   time.Time // when the pause is over
	early  int
	served int
}

func (s *strict) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch now := time.Now(); {
	case err != nil || string(body) != "a body":
		http.Error(w, "where is the body?", http.StatusBadRequest)
	case now.Before(s.open):
		s.early++
		http.Error(w, "I said later", http.StatusTeapot)
	case s.refuse:
		s.refuse, s.open = false, now.Add(time.Second)
		w.Header().Set("Retry-After", "1")
		http.Error(w, "later", http.StatusTooManyRequests)
	default:
		s.served++
		_, _ = io.WriteString(w, "served")
	}
}

// Five processes on a Redis, and a server on a port: one of them is asked to come back later. None
// calls until then, all go on afterwards, and no request is lost.
func TestAFleetOfProcessesKeepsAPause(t *testing.T) {
	redis := redistest.Servers(t, 1)[0]
	server := &strict{refuse: true}
	web := httptest.NewServer(server)
	t.Cleanup(web.Close)
	const processes, each = 5, 20
	fleet := make([]*ofFleet, processes)
	for i := range fleet {
		fleet[i] = enlist(t, fleetJob{Redis: redis.Addr(), URL: web.URL})
	}
	fleet[0].order(t, 1)
	if said := fleet[0].hear(); said != "paused <nil>" {
		t.Fatalf("the process that was refused says %q", said)
	}
	for _, p := range fleet { // from now on all can know
		p.order(t, each)
	}
	if said := fleet[0].hear(); said != "served" {
		t.Errorf("the request that was refused: %q", said)
	}
	for i, p := range fleet {
		for range each {
			if said := p.hear(); said != "served" {
				t.Fatalf("process %d says %q", i, said)
			}
		}
	}
	server.mu.Lock()
	defer server.mu.Unlock()
	if server.early != 0 || server.served != processes*each+1 {
		t.Errorf("%d calls in the pause, %d served of %d", server.early, server.served, processes*each+1)
	}
}
