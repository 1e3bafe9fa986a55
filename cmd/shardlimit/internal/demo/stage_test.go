package demo

import (
	"context"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/spelling"
	"github.com/shardlimit/shardlimit/internal/history"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// Every act does what it says, and tells the phase that begins with it.
func TestActs(t *testing.T) {
	c := Config{For: 10 * time.Second, Rate: spelling.Rate{Permits: 100, Per: 200 * time.Millisecond},
		Shards: 4, Nodes: 2, Workers: 1}
	s, err := newStage(t.Context(), c)
	limittest.Must(t, err)
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
	s.phases = []phase{{limit: 100}}
	if len(acts) != len(want) {
		t.Fatalf("%d acts, want %d", len(acts), len(want))
	}
	for i, a := range acts {
		s.perform(t.Context(), a)
		last, p := s.phases[i], s.phases[i+1]
		if p.text != want[i].text || p.limit != want[i].limit || p.away != want[i].away || p.asked == 0 ||
			p.done < p.asked || last.until != p.asked {
			t.Errorf("act %d: %+v", i, p)
		}
		if i > 0 && a.at <= acts[i-1].at || a.at >= c.For {
			t.Errorf("act %d comes at %s", i, a.at)
		}
		for answering := -1; answering != want[i].answering; { // a node that came back is noticed soon
			state, err := s.observer.Peek(t.Context())
			limittest.Must(t, err)
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
	v, err := Run(ctx, Config{For: time.Hour, Rate: spelling.Rate{Permits: 10, Per: time.Second}, Nodes: 1, Workers: 1},
		func(Snapshot) { interrupt() })
	if err != nil || !v.OK() {
		t.Errorf("verdict:\n%s%v", v, err)
	}
}

func TestVerdictOfAnExceededLimit(t *testing.T) {
	v := Verdict{Window: time.Second, Admitted: 21, findings: judge(time.Second, lowered(), ops(7, 1500, 1600, 1700))}
	if v.OK() || !strings.Contains(v.String(), "most in any window 21 of 6 (350.0 %): OVER THE LIMIT") {
		t.Errorf("verdict:\n%s", v)
	}
}

func example() Snapshot {
	return Snapshot{
		Elapsed: 4200 * time.Millisecond, For: 10 * time.Second, Limit: spelling.Rate{Permits: 1200, Per: time.Second},
		Workers: []WorkerLine{{"worker 1", "AllowUpTo(3)", 600, 600}, {"worker 2", "WaitN(21)", 300, 400},
			{"worker 3", "Allow", 0, 200}},
		Nodes:  []NodeLine{{"node 1", false, 2, 600, 300}, {"node 2", true, 1, 600, 0}},
		Events: []Event{{2500 * time.Millisecond, "limit lowered to 1200/s"}, {4 * time.Second, "node 2 away"}},
	}
}

func text(s Snapshot, width, height int, colour bool) string {
	var b strings.Builder
	for _, r := range frame(s, width, height) {
		b.WriteString(strings.TrimRight(r.render(width, colour), " ") + "\n")
	}
	return b.String()
}

func TestFrame(t *testing.T) {
	want := `shardlimit demo  one limit, 3 workers, 2 nodes  4.2s of 10.0s

limit 1200/s                        900/s   ██████████████████▊
  worker 1  AllowUpTo(3)     600 of 600/s   █████████████████████████
  worker 2  WaitN(21)        300 of 400/s   ██████████████████▊
  worker 3  Allow              0 of 200/s
  got of entitled: Jain's index 0.653, the least 0.0 %

  node 1    2 shards           300 of 600   ████████████▌
  node 2    1 shard     away; its part of the limit waits for it

    2.5s  limit lowered to 1200/s
    4.0s  node 2 away
`
	if got := text(example(), 72, 30, false); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Whatever the size of the screen, the frame stays inside.
func TestFrameFits(t *testing.T) {
	for width := 1; width < 120; width += 7 {
		for height := 1; height < 20; height++ {
			rows := frame(example(), width, height)
			if len(rows) > height {
				t.Fatalf("%d rows on a screen of %d", len(rows), height)
			}
			for _, r := range rows {
				if n := utf8.RuneCountInString(r.render(width, false)); n > width {
					t.Fatalf("%d columns on a screen of %d", n, width)
				}
			}
		}
	}
	if got := text(example(), 80, 12, false); !strings.Contains(got, "node 2 away") ||
		strings.Contains(got, "lowered") {
		t.Errorf("with room for one event it must be the newest:\n%s", got)
	}
}

const ms = int64(time.Millisecond)

// ops makes one operation of n permits at each of the given milliseconds.
func ops(n int64, at ...int64) []history.Op {
	var all []history.Op
	for _, t := range at {
		all = append(all, history.Op{Start: t * ms, End: t*ms + 1, Permits: n})
	}
	return all
}

// lowered: 10 permits until a change from 1000 to 1010 ms to 6 permits, which is
// taken back from 3000 to 3010 ms.
func lowered() []phase {
	return []phase{
		{limit: 10, until: 1000 * ms},
		{limit: 6, asked: 1000 * ms, done: 1010 * ms, until: 3000 * ms},
		{limit: 10, asked: 3000 * ms, done: 3010 * ms, until: 5000 * ms},
	}
}

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		name string
		ops  []history.Op
		ok   bool
	}{
		{"nothing", nil, true},
		{"full before and after", append(ops(10, 0, 3020), ops(6, 1990)...), true},
		{"over before", ops(11, 500), false},
		{"over after", ops(11, 4000), false},
		{"the old limit in a window that begins before the change was complete", ops(5, 1005, 1500), true},
		{"the old limit in a window that begins after it", ops(5, 1011, 1500), false},
		{"more than the old limit across the lowering", ops(6, 900, 1500), false},
		{"the old limit across the lowering", ops(5, 900, 1500), true},
		{"the new limit in a window that ends after the raise was begun", ops(5, 2500, 3001), true},
		{"the new limit in a window that ends before it", ops(5, 2500, 2900), false},
		{"more than the new limit across the raise", ops(6, 2500, 3100), false},
	} {
		ok := true
		for _, f := range judge(time.Second, lowered(), c.ops) {
			ok = ok && f.ok
		}
		if ok != c.ok {
			t.Errorf("%s: ok is %t: %+v", c.name, ok, judge(time.Second, lowered(), c.ops))
		}
	}
}

func TestJudgeFindsEveryStretchOnce(t *testing.T) {
	found := judge(time.Second, lowered(), append(ops(9, 0), ops(6, 2000)...))
	if len(found) != 2 || found[0].limit != 10 || found[0].busiest.Permits != 9 || found[1].limit != 6 ||
		found[1].busiest.Permits != 6 {
		t.Errorf("found %+v", found)
	}
	same := []phase{{limit: 10, until: 1000 * ms},
		{limit: 10, away: 5, asked: 1000 * ms, done: 1010 * ms, until: 2000 * ms}}
	if found := judge(time.Second, same, ops(10, 100)); len(found) != 1 {
		t.Errorf("found %+v", found)
	}
}

// Windows count that begin two after a change and end before the next. The share of a node that is
// away is nobody's, and nobody is entitled to more than it wants.
func TestDivide(t *testing.T) {
	phases := []phase{{limit: 10, until: 2500 * ms}, {limit: 10, away: 4, done: 2510 * ms, until: 6600 * ms}}
	all := []part{{name: "a", want: 2, ops: ops(1, 500, 4600, 5600)},
		{name: "b", want: 8, ops: ops(3, 500, 4600, 4700, 5600, 6550)}}
	if !divide(time.Second, phases, all) {
		t.Error("two windows are judged")
	}
	for i, want := range [][3]int64{{4, 4, 2}, {16, 8, 9}} {
		if p := all[i]; [3]int64{p.wanted, p.entitled, p.got} != want {
			t.Errorf("%s: %d wanted, %d entitled, %d got", p.name, p.wanted, p.entitled, p.got)
		}
	}
	if d := divisionOf(all); d.least != 0.5 || d.all != 11.0/12 || !strings.Contains(d.verdict(), "only 91.6 %") {
		t.Errorf("%+v%s", d, d.verdict())
	}
	if divide(time.Second, phases[:1], all) {
		t.Error("half a window is judged")
	}
}
