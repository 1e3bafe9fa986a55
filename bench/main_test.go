package main

import (
	"context"
	"errors"
	"flag"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/report"
	"github.com/shardlimit/shardlimit/bench/internal/scenario"
)

func TestParse(t *testing.T) {
	var out strings.Builder
	j, err := parse([]string{"lone,exact", "--rounds", "3", "--goroutines", "1, 64", "--rivals", "shardlimit,ulule",
		"--cases", "hog; steady"}, &out)
	if err != nil {
		t.Fatal(err)
	}
	if len(j.scenarios) != 2 || j.scenarios[1].Name != "exact" || j.env.Rounds != 3 ||
		!slices.Equal(j.env.Goroutines, []int{1, 64}) || len(j.env.Rivals) != 2 || j.results != "results" ||
		!slices.Equal(j.env.Cases, []string{"hog", "steady"}) {
		t.Errorf("parsed %+v", j)
	}
	if !strings.HasPrefix(j.command, "go -C bench run . lone,exact --rounds 3") {
		t.Errorf("command %q", j.command)
	}
}

func TestParseErrors(t *testing.T) {
	for _, args := range [][]string{
		{}, {"nothing"}, {"exact", "more"}, {"exact", "--no-such-flag"}, {"exact", "--goroutines", "0"},
		{"exact", "--goroutines", "1,x"}, {"exact", "--rivals", "nobody"}, {"exact", "--rounds", "-1"},
		{"exact", "--time", "0"}, {"exact", "--time", "NaN"}, {"--smoke"}, {"exact,nothing"}, {"all", "--smoke"},
		{"exact", "--busy", "perhaps"},
	} {
		if _, err := parse(args, &strings.Builder{}); !errors.Is(err, errUsage) {
			t.Errorf("%v: err %v, want a usage error", args, err)
		}
	}
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{{"-h"}, {"exact", "--help"}} {
		var out strings.Builder
		if _, err := parse(args, &out); !errors.Is(err, flag.ErrHelp) {
			t.Errorf("%v: err %v, want help", args, err)
		}
		for _, want := range []string{"exact", "lone", "size", "report", "redis_rate", "-smoke", "example:"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%v: help lacks %q", args, want)
			}
		}
	}
}

// TestWhatWasMeasuredIsKept: a scenario that fails half-way leaves what it has, and says so.
func TestWhatWasMeasuredIsKept(t *testing.T) {
	boom := errors.New("boom")
	half := scenario.Scenario{Name: "half", Run: func(_ context.Context, s *scenario.Sheet) error {
		s.Result.Add("a", 1, "rate", 2)
		return boom
	}}
	none := scenario.Scenario{Name: "none",
		Run: func(context.Context, *scenario.Sheet) error { return boom }}
	j := &job{scenarios: []scenario.Scenario{none, half}, results: t.TempDir(), out: &strings.Builder{}, busy: mark,
		watch: watch{sleep: func(context.Context, time.Duration) {}}}
	if err := j.do(t.Context()); !errors.Is(err, boom) {
		t.Errorf("err %v, want that of the scenarios", err)
	}
	r, err := report.Read(filepath.Join(j.results, "half.json"))
	if err != nil || len(r.Points) != 1 || !strings.Contains(strings.Join(r.Remarks, " "), "boom") {
		t.Errorf("kept %+v, err %v", r, err)
	}
	if _, err := report.Read(filepath.Join(j.results, "none.json")); err == nil {
		t.Error("a result of nothing was written")
	}
}
