package limittest

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit"
)

// jobVariable makes this test binary a worker instead: a process of its own
// that uses a limiter until its standard input ends.
const jobVariable = "SHARDLIMIT_TEST_JOB"

// Job is what a worker is to do.
type Job struct {
	Addrs    []string  // of independent nodes n0, n1 ...
	Nodes    []JobNode // beside them
	Prefix   string
	Name     string
	Limit    shardlimit.Limit
	Callers  int
	Patience time.Duration // call timeout; 0: all the time it wants
	Dying    bool          // nodes break meanwhile, and so may the process
	History  string        // file to write it to
}

// JobNode is a node that a worker uses: a server, a whole Redis Cluster, or a Sentinel set.
type JobNode struct {
	Name      string
	Addrs     []string
	Cluster   bool
	MasterSet string
}

func (n JobNode) node() shardlimit.Node {
	option := Unhurried(rueidis.ClientOption{InitAddress: n.Addrs, DisableCache: true,
		ForceSingleClient: !n.Cluster && n.MasterSet == ""})
	option.Sentinel.MasterSet = n.MasterSet
	return shardlimit.Node{Name: n.Name, Redis: option}
}

func init() {
	if text, ok := os.LookupEnv(jobVariable); ok {
		if err := work(text, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

func work(text string, stop io.Reader, out io.Writer) error {
	var j Job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	cfg := shardlimit.Config{KeyPrefix: j.Prefix, CallTimeout: cmp.Or(j.Patience, Patience)}
	for i, addr := range j.Addrs {
		j.Nodes = append(j.Nodes, JobNode{Name: fmt.Sprintf("n%d", i), Addrs: []string{addr}})
	}
	for _, n := range j.Nodes {
		cfg.Nodes = append(cfg.Nodes, n.node())
	}
	if j.Dying {
		cfg.NodeTimeout, cfg.AfterLoss = failoverAfter, shardlimit.Quarantine
	}
	client, err := shardlimit.New(cfg)
	if err != nil {
		return err
	}
	defer client.Close()
	l, err := client.Limiter(context.Background(), j.Name, j.Limit)
	if err != nil {
		return err
	}
	file, err := os.Create(j.History)
	if err != nil {
		return err
	}
	callers := MakeTraffic()
	callers.journal, callers.Dying, callers.Rest = file, j.Dying, 2*time.Millisecond
	callers.Start(j.Callers, l)
	if _, err := fmt.Fprintln(out, "working"); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, stop)
	_, failure := callers.Stop()
	if j.Dying && Harmless(failure) {
		failure = nil
	}
	return errors.Join(err, failure, file.Close())
}

// Worker is a process that does a job.
type Worker struct {
	Cmd    *exec.Cmd
	Stdin  io.Closer
	stderr strings.Builder
	Job    Job
}

// Hire starts a worker and returns when it is at work. It ends with the test at
// the latest, and by itself when the test binary dies, as its input ends then.
func Hire(tb testing.TB, j Job) *Worker {
	tb.Helper()
	j.History = filepath.Join(tb.TempDir(), "history")
	text, err := json.Marshal(j)
	if err != nil {
		tb.Fatal(err)
	}
	w := &Worker{Job: j, Cmd: exec.Command(os.Args[0])}
	w.Cmd.Env = append(os.Environ(), jobVariable+"="+string(text))
	w.Cmd.Stderr = &w.stderr
	stdin, err := w.Cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	stdout, err := w.Cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	w.Stdin = stdin
	if err := w.Cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = w.Cmd.Process.Kill() // it has ended unless the test failed
		_ = w.Cmd.Wait()
	})
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		tb.Fatalf("worker: %q, %v", line, err)
	}
	return w
}

// Dismiss ends the work and returns the file with the worker's history.
func (w *Worker) Dismiss(tb testing.TB) string {
	tb.Helper()
	_ = w.Stdin.Close()
	if err := w.Cmd.Wait(); err != nil {
		tb.Errorf("worker: %v: %s", err, w.stderr.String())
	}
	return w.Job.History
}

// OwnGoroutines are the goroutines that run code of ours or of the Redis client.
func OwnGoroutines() []string {
	buf := make([]byte, 4<<20)
	var found []string
	for _, g := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		for _, name := range []string{"shardlimit/shardlimit.(", "shardlimit/internal/call.(",
			"shardlimit/internal/wait.(", "shardlimit/internal/set.(", "shardlimit/internal/limit.(",
			"shardlimit/internal/dispatch.(", "shardlimit/internal/node.(", "redis/rueidis.("} {
			if strings.Contains(g, name) {
				found = append(found, g)
				break
			}
		}
	}
	return found
}

// HeapInUse is the memory in use after a collection.
func HeapInUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
