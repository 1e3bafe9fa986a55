package histories

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
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

// report is what a worker says: that it begins with a seed, or what came of an order.
type report struct {
	Begins uint64   `json:",omitempty"`
	Failed []failed `json:",omitempty"`
	Stats  stats    `json:",omitzero"`
	Done   bool     `json:",omitempty"`
}

// failed is a history that shows something that must not be.
type failed struct {
	Seed     uint64
	Findings []finding
}

// saying begins the lines that a worker writes for whoever started it.
const saying = "HISTORIES "

// serve is a worker.
func serve(t *testing.T, in io.Reader, out io.Writer) {
	say := func(r report) {
		text, err := json.Marshal(r)
		if err != nil {
			panic(err)
		}
		_, _ = fmt.Fprintf(out, "\n%s%s\n", saying, text)
	}
	orders := json.NewDecoder(in)
	for {
		var o order
		if err := orders.Decode(&o); err != nil {
			return
		}
		r := report{Done: true}
		one := func(p *plan) {
			say(report{Begins: p.Seed})
			var found []finding
			var s stats
			if o.Twice {
				found, s = playTwice(t, p)
			} else {
				found, s, _ = playOne(t, p)
			}
			r.Stats.add(s)
			if len(found) > 0 {
				r.Failed = append(r.Failed, failed{p.Seed, found})
			}
		}
		if o.Plan != nil {
			one(o.Plan)
		} else {
			for seed := o.From; seed < o.To; seed++ {
				one(draw(seed, o.Theme))
			}
		}
		say(r)
	}
}

// player is a worker, as seen by whoever started it.
type player struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr bytes.Buffer
}

// stalled is after how long a worker that says nothing is given up.
const stalled = 2 * time.Minute

func hirePlayer(binary string, env ...string) (*player, error) {
	p := &player{cmd: exec.Command(binary, "-test.run=^TestHistories$", "-test.timeout=0")}
	p.cmd.Env = append(append(os.Environ(), env...), historyVariable+"=1", "GOMAXPROCS=1", "GOGC=off",
		"GOMEMLIMIT=1GiB", "GODEBUG=adaptivestackstart=1,asyncpreemptoff=1")
	p.cmd.Stderr = &p.stderr
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.in, p.out = in, bufio.NewReader(out)
	return p, p.cmd.Start()
}

// play carries an order out. If the worker ends at it, the history at which it did is what failed.
func (p *player) play(o order) (r report, alive bool) {
	if err := json.NewEncoder(p.in).Encode(o); err != nil {
		return p.lost(o.From)
	}
	at := o.From
	watch := time.AfterFunc(stalled, func() { _ = p.cmd.Process.Kill() })
	defer watch.Stop()
	for {
		line, err := p.out.ReadString('\n')
		if err != nil {
			return p.lost(at)
		}
		text, ok := strings.CutPrefix(line, saying)
		if !ok {
			continue
		}
		watch.Reset(stalled)
		r = report{}
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			return p.lost(at)
		}
		if r.Done {
			return r, true
		}
		at = r.Begins
	}
}

// lost is the report of a worker that has ended.
func (p *player) lost(seed uint64) (report, bool) {
	_ = p.in.Close()
	err := p.cmd.Wait()
	text := p.stderr.String()
	if i := strings.Index(text, "panic:"); i >= 0 {
		text = text[i:]
	}
	lines := strings.Split(text, "\n")
	return report{Failed: []failed{{seed,
		[]finding{{"panic", fmt.Sprintf("%v: %s", err, strings.Join(lines[:min(len(lines), 24)], "\n"))}}}}}, false
}

// dismiss ends the worker.
func (p *player) dismiss() {
	_ = p.in.Close()
	_ = p.cmd.Wait()
}

// stage has a worker whenever one is needed.
type stage struct {
	player *player
	binary string   // that the worker runs; "": this one
	env    []string // that it has beside ours
}

// play has some worker carry the order out.
func (s *stage) play(o order) (report, error) {
	if s.player == nil {
		p, err := hirePlayer(cmp.Or(s.binary, os.Args[0]), s.env...)
		if err != nil {
			return report{}, err
		}
		s.player = p
	}
	r, alive := s.player.play(o)
	if !alive {
		s.player = nil
	}
	return r, nil
}

func (s *stage) close() {
	if s.player != nil {
		s.player.dismiss()
	}
}
