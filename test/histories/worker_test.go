package histories

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/internal/limittest"
)

// historyVariable makes this test binary a worker that plays histories: a process of its own with
// one processor, so that a history is played alike again, and one that panics ends nothing but the
// worker.
const historyVariable = "SHARDLIMIT_TEST_HISTORIES"

// order is what a worker is to play: the histories of these seeds, or this one.
type order struct {
	From, To uint64
	Theme    string
	Plan     *plan
	Twice    bool // each is played twice
}

// plans are the histories of the order.
func (o order) plans() (all []*plan) {
	if o.Plan != nil {
		return []*plan{o.Plan}
	}
	for seed := o.From; seed < o.To; seed++ {
		all = append(all, draw(seed, o.Theme))
	}
	return all
}

// report is what a worker says: that it begins with a seed, or what came of an order.
type report struct {
	Begins uint64   `json:",omitempty"`
	Failed []failed `json:",omitempty"`
	Stats  stats    `json:",omitempty"`
	Done   bool     `json:",omitempty"`
}

// failed is a history that shows something that must not be.
type failed struct {
	Seed     uint64
	Findings []finding
}

// shows returns what some history shows of a kind, nil if none does.
func (r report) shows(kind string) *finding {
	for _, f := range r.Failed {
		if i := slices.IndexFunc(f.Findings, func(f finding) bool { return f.Kind == kind }); i >= 0 {
			return &f.Findings[i]
		}
	}
	return nil
}

// saying begins the lines that a worker writes for whoever started it.
const saying = "HISTORIES "

// serve is a worker.
func serve(t *testing.T, in io.Reader, out io.Writer) {
	say := func(r report) {
		text, err := json.Marshal(r)
		limittest.Must(t, err)
		_, _ = fmt.Fprintf(out, "\n%s%s\n", saying, text)
	}
	orders := json.NewDecoder(in)
	for {
		var o order
		if err := orders.Decode(&o); err != nil {
			return
		}
		r := report{Done: true, Stats: stats{}}
		for _, p := range o.plans() {
			say(report{Begins: p.Seed})
			found, s, trace := playOne(t, p)
			if o.Twice {
				again, _, second := playOne(t, p)
				found = append(append(found, again...), differ(trace, second)...)
			}
			r.Stats.add(s)
			if len(found) > 0 {
				r.Failed = append(r.Failed, failed{p.Seed, found})
			}
		}
		say(r)
	}
}

// stage has a worker whenever one is needed.
type stage struct {
	binary string    // that the worker runs; "": this one
	env    []string  // that it has beside ours
	cmd    *exec.Cmd // nil: there is none now
	in     io.WriteCloser
	out    *bufio.Reader
	stderr bytes.Buffer
}

// stalled is after how long a worker that says nothing is given up.
const stalled = 2 * time.Minute

func (s *stage) hire() error {
	s.cmd = exec.Command(cmp.Or(s.binary, os.Args[0]), "-test.run=^TestHistories$", "-test.timeout=0")
	s.cmd.Env = append(append(os.Environ(), s.env...), historyVariable+"=1", "GOMAXPROCS=1", "GOGC=off",
		"GOMEMLIMIT=1GiB", "GODEBUG=adaptivestackstart=1,asyncpreemptoff=1")
	s.stderr.Reset()
	s.cmd.Stderr = &s.stderr
	in, err := s.cmd.StdinPipe()
	out, failure := s.cmd.StdoutPipe()
	s.in, s.out = in, bufio.NewReader(out)
	return errors.Join(err, failure, s.cmd.Start())
}

// play has a worker carry an order out. If it ends at it, the history at which it did is what
// failed.
func (s *stage) play(o order) report {
	if s.cmd == nil {
		if err := s.hire(); err != nil {
			panic(err)
		}
	}
	if err := json.NewEncoder(s.in).Encode(o); err != nil {
		return s.lost(o.From)
	}
	at, worker := o.From, s.cmd.Process
	watch := time.AfterFunc(stalled, func() { _ = worker.Kill() })
	defer watch.Stop()
	for {
		line, err := s.out.ReadString('\n')
		if err != nil {
			return s.lost(at)
		}
		text, ok := strings.CutPrefix(line, saying)
		if !ok {
			continue
		}
		watch.Reset(stalled)
		var r report
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			return s.lost(at)
		}
		if r.Done {
			return r
		}
		at = r.Begins
	}
}

// lost is the report of a worker that has ended.
func (s *stage) lost(seed uint64) report {
	err := s.close()
	text := s.stderr.String()
	lines := strings.Split(text[max(strings.Index(text, "panic:"), 0):], "\n")
	return report{Failed: []failed{{seed,
		[]finding{{"panic", fmt.Sprintf("%v: %s", err, strings.Join(lines[:min(len(lines), 24)], "\n"))}}}}}
}

// close ends the worker.
func (s *stage) close() error {
	cmd := s.cmd
	if s.cmd = nil; cmd == nil {
		return nil
	}
	_ = s.in.Close()
	return cmd.Wait()
}
