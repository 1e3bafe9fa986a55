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
