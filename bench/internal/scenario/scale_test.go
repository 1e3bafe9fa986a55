package scenario

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/shardlimit/shardlimit/bench/internal/fleet"
)

func TestBusiest(t *testing.T) {
	for _, c := range []struct {
		loads []float64
		want  float64
	}{{[]float64{2, 2}, 1}, {[]float64{1, 2, 3}, 1.5}, {[]float64{0, 0}, 0}} {
		if got := busiest(c.loads); got != c.want {
			t.Errorf("busiest(%v) = %v, want %v", c.loads, got, c.want)
		}
	}
}

func TestMachineTicks(t *testing.T) {
	read := func(text string) ticks {
		file := filepath.Join(t.TempDir(), "stat")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return machineTicks(file)
	}
	before := read("cpu  10 0 10 100 0 0 0 0 5 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n")
	after := read("cpu  40 0 20 150 10 0 0 0 9 0\n")
	if busy, ok := after.busySince(before); !ok || busy != 40 {
		t.Errorf("busy %v %%, known: %v; want 40", busy, ok)
	}
	for _, text := range []string{"", "cpu 1 2", "intr 1 2 3 4 5 6 7 8 9", "cpu a 2 3 4 5 6 7 8"} {
		if broken := read(text); broken.ok {
			t.Errorf("%q was understood", text)
		}
	}
	if _, ok := before.busySince(after); ok {
		t.Error("time ran backwards and nobody noticed")
	}
}

// TestScaleJobKeepsTheLoadOfANode checks what makes numbers of nodes comparable.
func TestScaleJobKeepsTheLoadOfANode(t *testing.T) {
	ours := contender{name: "x", kind: fleet.Coalesced}
	for nodes, want := range map[int]struct{ callers, participants int }{1: {scaleCallers, 16},
		2: {2 * scaleCallers, 16}, 12: {2 * scaleCallers, 96}} {
		j := scaleJob(ours, make([]string, nodes), "l")
		if j.Callers != want.callers || j.Shards != nodes || len(j.Participants) != want.participants {
			t.Errorf("%d nodes: %d callers, %d shards, %d participants", nodes, j.Callers, j.Shards,
				len(j.Participants))
		}
	}
	ours.shards = 24
	if j := scaleJob(ours, make([]string, 1), "l"); j.Callers != 2*scaleCallers || j.Shards != 24 ||
		len(j.Participants) != scaleParticipants {
		t.Errorf("%d callers, %d shards, %d participants", j.Callers, j.Shards, len(j.Participants))
	}
}

func TestCorrelation(t *testing.T) {
	for _, c := range []struct {
		xs, ys []float64
		want   float64
	}{
		{[]float64{1, 2, 3}, []float64{10, 20, 30}, 1},
		{[]float64{1, 2, 3}, []float64{3, 2, 1}, -1},
		{[]float64{1, 2, 1, 2}, []float64{5, 5, 7, 7}, 0},
		{[]float64{1, 2}, []float64{4, 4}, 0},
	} {
		if got := correlation(c.xs, c.ys); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("correlation of %v and %v is %v, want %v", c.xs, c.ys, got, c.want)
		}
	}
}

// TestPreferring: every participant prefers two shards, or the only one.
func TestPreferring(t *testing.T) {
	for nodes, want := range map[int]float64{1: 16, 2: 32, 12: 192} {
		job := scaleJob(contender{name: "x", kind: fleet.Coalesced}, make([]string, nodes), "l")
		counts := preferring(job)
		if len(counts) != nodes || sum(counts) != want {
			t.Errorf("%d nodes: %v, want %v in all", nodes, counts, want)
		}
	}
}
