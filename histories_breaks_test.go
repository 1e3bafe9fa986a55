package shardlimit_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/shardlimit/shardlimit/internal/race"
)

// breakVariable tells a worker whose source is changed which break it has.
const breakVariable = "SHARDLIMIT_TEST_BREAK"

// breakage is a rule that keeps a promise, switched off. Where two rules keep it, both are.
type breakage struct {
	name  string
	theme string   // of the histories that find it
	kind  string   // of the finding
	seeds []uint64 // of histories that found it
	edits []edit
}

// edit is another text in place of one that stands exactly once in the source. In the other one,
// broken(name) tells whether the break is wanted.
type edit struct{ text, instead string }

var breakages = []breakage{
	{
		name: "a share comes back with an old snapshot", theme: "mixed", kind: "over", seeds: []uint64{7012814},
		edits: []edit{
			{"if !layout.Settled && s.Start != shard.Unknown {",
				"if !BROKEN && !layout.Settled && s.Start != shard.Unknown {"},
		},
	},
	{
		name: "an idle process wakes after its limit was divided anew", theme: "idle", kind: "over", seeds: []uint64{0},
		edits: []edit{
			{"b == nil || b.epoch != epoch || r.highest.Load() > epoch || elapsed >= b.until",
				"b == nil || !BROKEN && (b.epoch != epoch || r.highest.Load() > epoch) || elapsed >= b.until"},
			{"\tc.leave(layout)\n", "\tif !BROKEN {\n\t\tc.leave(layout)\n\t}\n"},
		},
	},
	{
		name: "a lease lasts as long as under the limit before", theme: "lease", kind: "over", seeds: []uint64{56},
		edits: []edit{
			{"return l.epoch == t.layout.Epoch && l.slept == slept",
				"return (BROKEN || l.epoch == t.layout.Epoch) && l.slept == slept"},
			{"c.record().Highest() > l.epoch ||", "!BROKEN && c.record().Highest() > l.epoch ||"},
			{"\t\tc.members.retire(t)\n", "\t\tif !BROKEN {\n\t\t\tc.members.retire(t)\n\t\t}\n"},
		},
	},
	{
		name: "two layouts stay after a record was lost", theme: "records", kind: "over", seeds: []uint64{42},
		edits: []edit{
			{"if t := r.Limit.Layout(); t != nil {\n\t\tconsider(*t)",
				"if t := r.Limit.Layout(); t != nil && !BROKEN {\n\t\tconsider(*t)"},
			{"r.confirmed(layout.Epoch, sent)\n\tif !layout.Settled",
				"r.confirmed(layout.Epoch, sent)\n\tif BROKEN {\n\t\tr.confirmed(r.Limit.Layout().Epoch, " +
					"sent)\n\t}\n\tif !layout.Settled"},
		},
	},
	{
		name: "a queue of the process is taken for an outage", theme: "crowd", kind: "outage", seeds: []uint64{10},
		edits: []edit{
			{"if errors.Is(err, lane.ErrTooLate) && s.Lane.Answered(since) {",
				"if !BROKEN && errors.Is(err, lane.ErrTooLate) && s.Lane.Answered(since) {"},
			{"\t\tseen.queued = true\n\t\treturn v.denied",
				"\t\tif BROKEN {\n\t\t\t*d, err = m.outage(v.routes, n, false, lane.ErrTooLate)\n\t\t\treturn " +
					"err\n\t\t}\n\t\tseen.queued = true\n\t\treturn v.denied"},
		},
	},
	{
		name: "the shares of a key sum to more during a change", theme: "family", kind: "over", seeds: []uint64{0},
		edits: []edit{
			{"\tpermits = max(permits, 0)\n\teach, rest",
				"\tif permits = max(permits, 0); BROKEN {\n\t\treturn splitEvenly(permits, n)\n\t}\n\teach, rest"},
			{"return share <= max(l.Permits, next.Permits)", "return BROKEN || share <= max(l.Permits, next.Permits)"},
		},
	},
	{
		name: "each process places keys over its own nodes", theme: "family", kind: "over", seeds: []uint64{0},
		edits: []edit{{"if family.Keys == nil {", "if BROKEN || family.Keys == nil {"}},
	},
	{
		name: "time stands still while a machine is suspended", theme: "suspend", kind: "over", seeds: []uint64{100},
		edits: []edit{{"\treturn now + asleep\n", "\tif BROKEN {\n\t\treturn now\n\t}\n\treturn now + asleep\n"}},
	},
}

// TestHistoriesFindWhatIsBroken switches rules off, one break after the other, and has the
// generator of histories find each.
func TestHistoriesFindWhatIsBroken(t *testing.T) {
	if race.Enabled {
		return // see TestHistories
	}
	binary := breakable(t)
	for _, b := range breakages {
		t.Run(b.name, func(t *testing.T) {
			sound, broken := &stage{}, &stage{binary: binary, env: []string{breakVariable + "=" + b.name}}
			defer sound.close()
			defer broken.close()
			for _, seed := range b.seeds {
				if !b.found(t, broken, seed) {
					continue
				}
				if b.found(t, sound, seed) {
					t.Errorf("the history of seed %d shows the same without the break", seed)
				}
				return
			}
			const most = 300
			for seed := range uint64(most) {
				if b.found(t, broken, seed) {
					t.Logf("found by seed %d", seed)
					return
				}
			}
			t.Errorf("%d histories did not find it", most)
		})
	}
}

// found reports whether the history of a seed shows the break.
func (b *breakage) found(t *testing.T, s *stage, seed uint64) bool {
	t.Helper()
	r, err := s.play(order{From: seed, To: seed + 1, Theme: b.theme})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Failed {
		if slices.ContainsFunc(f.Findings, func(f finding) bool { return f.Kind == b.kind }) {
			return true
		}
	}
	return false
}

var packageLine = regexp.MustCompile(`(?m)^package \w+$`)

// breakable builds the histories once more, with every break in the source, each in force only for
// a worker that is told so.
func breakable(t *testing.T) (binary string) {
	t.Helper()
	dir := t.TempDir()
	files := 0
	put := func(text string) string {
		files++
		name := filepath.Join(dir, fmt.Sprint(files, ".txt"))
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	replace := map[string]string{}
	for path, text := range changedSources(t) {
		replace[path] = put(text)
		name := packageLine.FindString(text)
		variable := filepath.Join(filepath.Dir(path), "broken.go")
		replace[variable] = put(fmt.Sprintf("%s\n\nimport \"os\"\n\nvar broken = os.Getenv(%q)\n", name, breakVariable))
	}
	tests, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range tests {
		if !strings.HasPrefix(name, "histories_") && name != "export_test.go" {
			replace[filepath.Join(root(t), name)] = "" // it need not be built
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	binary = filepath.Join(dir, "broken.test")
	cmd := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-overlay", put(string(text)), "-o", binary,
		".")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the changed source does not build: %v\n%s", err, out)
	}
	return binary
}

// changedSources returns the files of the module that breaks are in, with all of them.
func changedSources(t *testing.T) map[string]string {
	t.Helper()
	sources, changed := map[string]string{}, map[string]string{}
	err := filepath.WalkDir(root(t), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root(t) && strings.Contains(" .git bench cmd docs tools ", " "+d.Name()+" ") {
			return fs.SkipDir
		}
		if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			text, err := os.ReadFile(path)
			sources[path] = string(text)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range breakages {
		for _, e := range b.edits {
			var at []string
			for path, text := range sources {
				for range strings.Count(text, e.text) {
					at = append(at, path)
				}
			}
			if len(at) != 1 {
				t.Fatalf("%d places of the source hold what %q changes: %s", len(at), b.name, e.text)
			}
			instead := strings.ReplaceAll(e.instead, "BROKEN", fmt.Sprintf("(broken == %q)", b.name))
			sources[at[0]] = strings.Replace(sources[at[0]], e.text, instead, 1)
			changed[at[0]] = sources[at[0]]
		}
	}
	return changed
}

// root is the directory of this package.
func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
