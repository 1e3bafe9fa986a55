package demo

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/rate"
)

func example() Snapshot {
	return Snapshot{
		Elapsed: 4200 * time.Millisecond, For: 10 * time.Second, Limit: rate.Rate{Permits: 1200, Per: time.Second},
		PerSecond: 900,
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

func TestColourAddsNothingElse(t *testing.T) {
	coloured := text(example(), 80, 30, true)
	for _, code := range []string{bold, dim, red, green, cyan, "0"} {
		coloured = strings.ReplaceAll(coloured, "\x1b["+code+"m", "")
	}
	squeeze := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	if squeeze(coloured) != squeeze(text(example(), 80, 30, false)) {
		t.Errorf("got\n%s", coloured)
	}
}

func TestSpeeds(t *testing.T) {
	s := speeds{over: time.Second, slack: 50 * time.Millisecond}
	total := int64(0)
	for i := range 50 { // 50 permits at once in every second; some samples are a little early
		at := time.Duration(i)*100*time.Millisecond - time.Duration(i%3)*time.Millisecond
		if i%10 == 5 {
			total += 50
		}
		got := s.add(max(at, 0), []int64{total, 0})
		if i > 10 && (got[0] < 48 || got[0] > 52 || got[1] != 0) {
			t.Fatalf("speed after %d samples is %v", i, got)
		}
	}
	if len(s.samples) > 12 {
		t.Errorf("%d samples are kept", len(s.samples))
	}
	if got := s.add(6*time.Second, []int64{total, 0}); got[0] > 30 {
		t.Errorf("a second without permits: %v", got)
	}
}

func TestLines(t *testing.T) {
	var b strings.Builder
	l, s := NewLines(&b), example()
	for _, s.Elapsed = range []time.Duration{0, 900 * time.Millisecond, 1100 * time.Millisecond,
		1900 * time.Millisecond, 3 * time.Second} {
		l.Show(s)
	}
	l.Close()
	want := `each second: permits taken and the limit; of workers, got and entitled;
of nodes, used or reserved and their share
  2.5s  * limit lowered to 1200/s
  4.0s  * node 2 away
  1.1s  900/s of 1200/s  workers 600/600 300/400 0/200  nodes 300/600 away
  3.0s  900/s of 1200/s  workers 600/600 300/400 0/200  nodes 300/600 away
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
	b.Reset()
	l = NewLines(&b)
	for range 20 {
		s.Workers = append(s.Workers, WorkerLine{"w", "Wait", 1234, 5678})
	}
	s.Elapsed = time.Second
	l.Show(s)
	for line := range strings.SplitSeq(b.String(), "\n") {
		if len(line) > 80 {
			t.Errorf("a line of %d columns: %s", len(line), line)
		}
	}
	if !strings.Contains(b.String(), " 1,234/5,678") {
		t.Errorf("no commas between thousands:\n%s", b.String())
	}
}
