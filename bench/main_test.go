package main

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/report"
	"github.com/shardlimit/shardlimit/bench/internal/scenario"
)

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
