package scenario

import (
	"context"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/fleet"
	"github.com/shardlimit/shardlimit/bench/internal/load"
	"github.com/shardlimit/shardlimit/bench/internal/parts"
	"github.com/shardlimit/shardlimit/bench/internal/report"
	"github.com/shardlimit/shardlimit/bench/internal/rival"
	"github.com/shardlimit/shardlimit/bench/internal/server/servertest"
	"github.com/shardlimit/shardlimit/bench/internal/service"
	"github.com/shardlimit/shardlimit/internal/extent"
	"github.com/shardlimit/shardlimit/internal/history"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/race"
	"github.com/shardlimit/shardlimit/script"
)

// TestMain lets the scenarios that start further processes start this test again.
func TestMain(m *testing.M) {
	fleet.ServeIfWorker()
	service.ServeIfService()
	// The race detector waits a second when a process ends: much, for processes that live as long.
	_ = os.Setenv("GORACE", os.Getenv("GORACE")+" atexit_sleep_ms=0")
	m.Run()
}

// newSheet is one on which a test notes what it finds.
func newSheet(t *testing.T) *Sheet {
	return &Sheet{Env: Env{Redis: "redis-server", Smoke: true, Progress: t.Logf}, Result: &report.Result{},
		rounds: make(map[point][]float64)}
}

// TestSmoke runs every scenario once and checks that it measured what it says
// it shows. No figure is judged.
func TestSmoke(t *testing.T) {
	servertest.Require(t)
	for i, c := range All() {
		if !extent.Plays(i + 2) {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel() // most of them wait most of the time
			result := &report.Result{Scenario: c.Name}
			env := Env{Redis: "redis-server", Smoke: true, Rivals: everybody(), Progress: t.Logf}
			limittest.Must(t, c.Measure(t.Context(), env, result))
			if len(result.Software) == 0 || len(result.Settings) == 0 {
				t.Error("the result does not name the server's version and the settings")
			}
			for _, v := range result.Views {
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
				if seen == 0 {
					t.Errorf("nothing was measured for %q", v.Metric)
				}
			}
			if _, err := result.Write(t.TempDir()); err != nil {
				t.Error(err)
			}
		})
	}
}

// everybody is all rivals, but go-zero if the race detector watches: when calls take too long, its
// breaker tells of it and counts errors without the lock that it has for that (errorWindow.String
// in 1.10.3), and the test would fail by that on a slow machine.
func everybody() []rival.Rival {
	return slices.DeleteFunc(rival.All(), func(r rival.Rival) bool { return race.Enabled && r.Name == "go-zero" })
}

func TestNamesDiffer(t *testing.T) {
	names := []string{"all", "report"} // subcommands of their own
	for _, s := range All() {
		if s.Title == "" || s.Question == "" || s.X == "" || slices.Contains(names, s.Name) {
			t.Errorf("scenario %q has no text, or a name that is taken", s.Name)
		}
		names = append(names, s.Name)
	}
}

// TestSeriesTakeTurns: each plays once a round, and another one is the first in each.
func TestSeriesTakeTurns(t *testing.T) {
	var order []int
	rounds := 0
	err := newSheet(t).inTurns(3, 3, func(round, i int) error {
		if round != rounds {
			t.Errorf("round %d after %d have ended", round, rounds)
		}
		order = append(order, i)
		return nil
	}, func() { rounds++ })
	if err != nil || rounds != 3 || !slices.Equal(order, []int{0, 1, 2, 1, 2, 0, 2, 0, 1}) {
		t.Errorf("%v in %d rounds, %v", order, rounds, err)
	}
}

// TestALoopIsAccountedFor: what was answered wrongly is remarked, and one that does not answer
// costs the others nothing.
func TestALoopIsAccountedFor(t *testing.T) {
	servertest.Require(t)
	s := newSheet(t)
	on, err := s.start(t.Context(), 1)
	limittest.Must(t, err)
	defer on.Close()
	s.Smoke = false // a smoke run would wait for a decision
	boom := errors.New("boom")
	for remark, call := range map[string]load.Call{
		"":                 func(context.Context) (bool, error) { return true, nil },
		"denied, although": func(context.Context) (bool, error) { return false, nil },
		"not one decision": func(context.Context) (bool, error) { return false, boom },
	} {
		s.Result.Remarks = nil
		found, err := s.closed(t.Context(), on, loop{who: "it", callers: 1, span: 200 * time.Millisecond, timed: true,
			each: func(int) load.Call { return call }})
		got := strings.Join(s.Result.Remarks, " ")
		if err != nil || (got == "") != (remark == "") || !strings.Contains(got, remark) ||
			(found == nil) != (remark == "not one decision") || found != nil && (found["rate"] <= 0 ||
			found["p99"] <= 0) {
			t.Errorf("%q: %v, remarks %q, err %v", remark, found, got, err)
		}
	}
	s.Result.Remarks = nil
	for range 2 {
		found, err := s.closed(t.Context(), on, loop{who: "it", callers: 1, span: 100 * time.Millisecond, cold: true,
			each: func(int) load.Call { return func(context.Context) (bool, error) { return false, boom } }})
		if err != nil || found["rate"] != 0 || len(s.Result.Remarks) != 1 {
			t.Errorf("a cold loop that fails: %v, remarks %q, err %v", found, s.Result.Remarks, err)
		}
	}
}

func TestScaleFigures(t *testing.T) {
	single, p := scalePoint{seconds: 2, decisions: 2000}, scalePoint{nodes: 4, seconds: 2, decisions: 6000}
	if found := p.figures(single); found["rate"] != 3000 || found["efficiency"] != 0.75 {
		t.Errorf("%v", found)
	}
}

// The pictures must show what the algorithms promise, and what slips through where something does.
func TestShapesKeepTheirBounds(t *testing.T) {
	for _, c := range []struct {
		algorithm script.Algorithm
		interval  int64
		from, to  int64
	}{
		{script.AlgorithmSlidingLog, shapeWindow, 100, 100},
		{script.AlgorithmSlidingCounter, shapeWindow, 100, 100},
		{script.AlgorithmFixedWindow, shapeWindow, 150, 200},
		{script.AlgorithmTokenBucket, shapeWindow, 150, 200},
		{script.AlgorithmTokenBucket, 200_000, 115, 120},
		{script.AlgorithmLeakyBucket, shapeWindow, 100, 101},
		{script.AlgorithmLeakyBucket, 200_000, 20, 21},
	} {
		acts, err := shapeOf(t.Context(), c.algorithm)
		limittest.Must(t, err)
		var ops []history.Op
		for _, at := range acts {
			ops = append(ops, history.Op{Start: at, End: at, Permits: 1})
		}
		if most := history.Busiest(time.Duration(c.interval), ops).Permits; most < c.from || most > c.to {
			t.Errorf("%v: %d permits within %d us, want %d to %d", c.algorithm, most, c.interval, c.from, c.to)
		}
	}
}

// TestFairnessRecord plays what a fleet could have reported, and checks the figures.
func TestFairnessRecord(t *testing.T) {
	c := fleet.Crowd{Permits: 10, Per: time.Second, For: 4 * time.Second,
		Members: []fleet.Member{{Weight: 1}, {Weight: 1}}}
	g := fleet.Gathering{Trails: []fleet.Trail{{Index: 0}, {Index: 1}}}
	for ms := int64(50); ms < 4000; ms += 100 { // ten a second each, in turn denied
		for i := range g.Trails {
			granted := (ms/100 + int64(i)) % 2
			g.Trails[i].Takes = append(g.Trails[i].Takes,
				fleet.Take{At: ms * 1000, End: ms*1000 + 10, Wanted: 1, Granted: granted})
		}
	}
	if least := recordOf(c, g, fairnessLead).Least(); least != 1 {
		t.Errorf("the least has %v of its part, want all", least)
	}
}

// TestPopulations checks what each population is about: that the limit is too
// small for it, before and after the change, and who has what part.
func TestPopulations(t *testing.T) {
	const n, limit, step = 50, 2000.0, time.Second
	for _, p := range populations() {
		members := p.members(n, limit, step)
		for _, at := range []time.Duration{0, 2 * step} {
			var weights, demands []float64
			var sum float64
			for _, m := range members {
				if m.From <= at {
					weights, demands = append(weights, m.Weight), append(demands, demandOf(m, limit))
					sum += demandOf(m, limit)
				}
			}
			if sum < 1.15*limit {
				t.Errorf("%s: only %v permits a second are wanted %s after the beginning, of %v", p.name, sum, at,
					limit)
			}
			part := parts.Entitled(weights, demands, limit)
			if p.name == "weights" &&
				(math.Abs(part[1]/part[0]-2) > 1e-3 || math.Abs(part[2]/part[0]-4) > 1e-3) {
				t.Errorf("weights 1:2:4 are entitled to %v", part[:3])
			}
			if p.name == hog && (math.Abs(part[0]-limit/n) > 0.01 || demands[0] != hogDemand*limit/n) {
				t.Errorf("the hog is entitled to %v and wants %v", part[0], demands[0])
			}
			for i, m := range members {
				if (m.Callers > 0) != (p.name == batch) {
					t.Errorf("%s: a member has %d callers that wait", p.name, m.Callers)
				}
				if steady := p.name == "steady"; m.Even != steady ||
					steady && math.Abs(demands[i]/part[i]-steadyDemand) > 1e-3 {
					t.Errorf("%s: a member is entitled to %v and wants %v, evenly %v", p.name, part[i], demands[i],
						m.Even)
				}
			}
		}
	}
}

// demandOf is how many permits a second a member wants, of so many that there are: all
// of them, if it has callers that do not work in between. Of callers that do, the
// time that a permit takes to come, even if there are enough of them, is left out: they ask for a
// little less.
func demandOf(m fleet.Member, limit float64) float64 {
	switch {
	case m.Callers == 0:
		return m.Rate
	case m.Work == 0:
		return limit
	}
	return float64(m.Callers) / m.Work.Seconds()
}
