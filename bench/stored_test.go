package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shardlimit/shardlimit/bench/internal/report"
	"github.com/shardlimit/shardlimit/bench/internal/scenario"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// TestStoredPictures: the pictures that are stored are those that results keep for documents, and a
// page shows each.
func TestStoredPictures(t *testing.T) {
	drawn := t.TempDir()
	results, err := filepath.Glob(filepath.Join(stored, "*.json"))
	if err != nil || len(results) == 0 {
		t.Fatal(results, err)
	}
	for _, file := range results {
		r, err := report.Read(file)
		limittest.Must(t, err)
		if _, err := r.Draw(drawn); err != nil {
			t.Error(err)
		}
	}
	want, err := fs.Glob(os.DirFS(drawn), "*.svg")
	limittest.Must(t, err)
	have, err := fs.Glob(os.DirFS(stored), "*.svg")
	if err != nil || !slices.Equal(want, have) {
		t.Errorf("stored are %v, want %v; draw them with: go -C bench run . report", have, want)
	}
	text := pagesIn(t, "..")
	for _, name := range have {
		if !strings.Contains(text, "/"+name) {
			t.Errorf("no page shows %s: have its view not kept, and remove it", name)
		}
		fresh, err := os.ReadFile(filepath.Join(drawn, name))
		if old, failed := os.ReadFile(filepath.Join(stored, name)); err != nil || failed != nil ||
			string(old) != string(fresh) {
			t.Errorf("%s is not what is drawn from the results now; draw it with: go -C bench run . report", name)
		}
	}
}

// TestStoredFigures: pages show the figures of the results that are stored.
func TestStoredFigures(t *testing.T) {
	folder := t.TempDir()
	limittest.Must(t, os.CopyFS(filepath.Join(folder, "docs"), os.DirFS("../docs")))
	readme, err := os.ReadFile("../README.md")
	limittest.Must(t, err)
	limittest.Must(t, os.WriteFile(filepath.Join(folder, "README.md"), readme, 0o600))
	before := pagesIn(t, folder)
	if err := report.Pages(folder, stored); err != nil {
		t.Error(err)
	}
	if pagesIn(t, folder) != before {
		t.Error("pages show other figures than are stored; bring them up to date with: go -C bench run . report")
	}
}

// pagesIn is the text of all pages for readers.
func pagesIn(t *testing.T, folder string) string {
	t.Helper()
	var all strings.Builder
	add := func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".md" {
			return err
		}
		text, err := os.ReadFile(path)
		all.Write(text)
		return err
	}
	limittest.Must(t, filepath.WalkDir(filepath.Join(folder, "docs"), add))
	limittest.Must(t, add(filepath.Join(folder, "README.md"), nil, nil))
	return all.String()
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
	j, _ := (&machine{loads: []string{"unknown"}, others: []int{0}}).on(t, mark)
	j.scenarios = []scenario.Scenario{none, half}
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
