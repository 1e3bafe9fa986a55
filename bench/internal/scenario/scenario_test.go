package scenario

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/report"
	"github.com/shardlimit/shardlimit/bench/internal/rival"
	"github.com/shardlimit/shardlimit/bench/internal/server/servertest"
	"github.com/shardlimit/shardlimit/internal/race"
)

// TestSmoke runs every scenario once and checks that it measured what it says
// it shows. No figure is judged.
func TestSmoke(t *testing.T) {
	servertest.Require(t)
	for _, s := range All() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel() // most of them wait most of the time
			result := &report.Result{Scenario: s.Name}
			env := Env{Redis: "redis-server", Smoke: true, Lineup: everybody(), Progress: t.Logf}
			if err := s.Run(t.Context(), env, result); err != nil {
				t.Fatal(err)
			}
			if len(result.Software) == 0 || len(result.Settings) == 0 {
				t.Error("the result does not name the server's version and the settings")
			}
			for _, v := range result.Views {
				check(t, result, v)
			}
			if _, err := result.Write(t.TempDir(), true); err != nil {
				t.Error(err)
			}
		})
	}
}

// everybody is all rivals, but go-zero if the race detector watches: when calls take too long, its
// breaker tells of it and counts errors without the lock that it has for that (errorWindow.String
// in 1.10.3), and the test would fail by that on a slow machine.
func everybody() rival.Lineup {
	all := rival.Everybody()
	all.Rivals = slices.DeleteFunc(all.Rivals, func(r rival.Rival) bool { return race.Enabled && r.Name == "go-zero" })
	return all
}

func check(t *testing.T, result *report.Result, v report.View) {
	t.Helper()
	seen := 0
	for _, p := range result.Points {
		if p.Metric != v.Metric {
			continue
		}
		seen++
		if len(p.Stat.Rounds) != 1 {
			t.Errorf("%s of %s at %v has %d rounds, want 1", p.Metric, p.Series, p.X, len(p.Stat.Rounds))
		}
	}
	// a busy machine may not come so far in a moment
	late := v.Metric == "large" || strings.HasPrefix(v.Metric, "settled")
	if seen == 0 && v.Metric != "failed" && !late { // best if nobody fails
		t.Errorf("nothing was measured for %q", v.Metric)
	}
}

func TestNamesDiffer(t *testing.T) {
	names := []string{"all", "performance", "report", "draw"} // subcommands of their own
	for _, s := range All() {
		if s.Title == "" || s.Question == "" || s.Takes <= 0 || slices.Contains(names, s.Name) {
			t.Errorf("scenario %q has no text, no duration or a name that is taken", s.Name)
		}
		names = append(names, s.Name)
	}
}

func TestEstimate(t *testing.T) {
	two := []Scenario{{Takes: time.Minute}, {Takes: 30 * time.Second}}
	for factor, want := range map[float64]time.Duration{0.1: 90 * time.Second, 0.3: 90 * time.Second,
		0.6: 3 * time.Minute} {
		if got := Estimate(Env{Time: factor}, two...); got.Round(time.Millisecond) != want {
			t.Errorf("with --time %v: %s, want %s", factor, got, want)
		}
	}
}

func TestRotated(t *testing.T) {
	for round, want := range [][]int{{0, 1, 2}, {1, 2, 0}, {2, 0, 1}, {0, 1, 2}} {
		if got := rotated(3, round); !slices.Equal(got, want) {
			t.Errorf("rotated(3, %d) = %v, want %v", round, got, want)
		}
	}
}
