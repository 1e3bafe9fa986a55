package demo

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/rate"
)

// memory is a View that keeps what it was shown.
type memory struct {
	shots  []Snapshot
	closed bool
}

func (m *memory) Show(s Snapshot) { m.shots = append(m.shots, s) }
func (m *memory) Close()          { m.closed = true }

// A whole demo, short: everything it promises to show is seen, and the limit is kept.
func TestRun(t *testing.T) {
	view := &memory{}
	c := Config{For: 2 * time.Second, Rate: rate.Rate{Permits: 100, Per: 200 * time.Millisecond}, Shards: 4, Nodes: 2,
		Workers: 3}
	v, err := Run(t.Context(), c, view)
	if err != nil {
		t.Fatal(err)
	}
	if !v.OK() || v.Admitted == 0 || len(v.findings) == 0 {
		t.Errorf("verdict:\n%s", v)
	}
	last := view.shots[len(view.shots)-1]
	if !view.closed || len(last.Workers) != 3 || len(last.Nodes) != 2 {
		t.Errorf("closed %t, last snapshot %+v", view.closed, last)
	}
	if !strings.Contains(v.String(), "never over") || strings.Contains(v.String(), "OVER") {
		t.Errorf("verdict:\n%s", v)
	}
}

// Every act does what it says, and tells the phase that begins with it.
func TestActs(t *testing.T) {
	c := Config{For: 10 * time.Second, Rate: rate.Rate{Permits: 100, Per: 200 * time.Millisecond}, Shards: 4, Nodes: 2,
		Workers: 1}
	s, err := newStage(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	want := []struct {
		text        string
		limit, away int64
		answering   int // shards
	}{
		{"limit lowered to 60/200ms", 60, 0, 4},
		{"node 2 away", 60, 30, 2},
		{"node 2 back", 60, 0, 4},
		{"limit raised to 100/200ms", 100, 0, 4},
	}
	acts := s.acts()
	if len(acts) != len(want) {
		t.Fatalf("%d acts, want %d", len(acts), len(want))
	}
	for i, a := range acts {
		p, err := a.do(t.Context())
		if err != nil || p.text != want[i].text || p.limit != want[i].limit || p.away != want[i].away || p.asked == 0 ||
			p.done < p.asked {
			t.Errorf("act %d: %+v, %v", i, p, err)
		}
		if i > 0 && a.at <= acts[i-1].at || a.at >= c.For {
			t.Errorf("act %d comes at %s", i, a.at)
		}
		for answering := -1; answering != want[i].answering; { // a node that came back is noticed soon
			state, err := s.observer.Peek(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			answering = 0
			for _, sh := range state.Shards {
				if sh.Err == nil {
					answering++
				}
			}
		}
		if got := s.observer.Limit().Permits; got != want[i].limit {
			t.Errorf("act %d: the limit is %d", i, got)
		}
	}
}

func TestRunEndsWhenItIsInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	view := &interrupting{stop: interrupt}
	v, err := Run(ctx, Config{For: time.Hour, Rate: rate.Rate{Permits: 10, Per: time.Second}, Nodes: 1, Workers: 1},
		view)
	if err != nil || !v.OK() {
		t.Errorf("verdict:\n%s%v", v, err)
	}
}

type interrupting struct {
	memory
	stop func()
}

func (i *interrupting) Show(s Snapshot) { i.stop() }

func TestRunRefuses(t *testing.T) {
	for name, c := range map[string]Config{
		"no nodes": {For: time.Second, Rate: rate.Rate{Permits: 1, Per: time.Second}, Workers: 1},
		"window":   {For: time.Second, Rate: rate.Rate{Permits: 1, Per: time.Microsecond}, Nodes: 1, Workers: 1},
	} {
		if _, err := Run(t.Context(), c, &memory{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestVerdictOnOnePermit(t *testing.T) {
	if text := (Verdict{Window: time.Second, Admitted: 1}).String(); !strings.Contains(text, "admitted 1 permit;") {
		t.Error(text)
	}
}

func TestVerdictOfAnExceededLimit(t *testing.T) {
	v := Verdict{Window: time.Second, Admitted: 21, findings: judge(time.Second, lowered(), ops(7, 1500, 1600, 1700))}
	if v.OK() || !strings.Contains(v.String(), "most in any window 21 of 6 (350.0 %): OVER THE LIMIT") {
		t.Errorf("verdict:\n%s", v)
	}
}
