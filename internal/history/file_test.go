package history

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

func TestWriteRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ops := opsGen().Draw(t, "ops")
		ops = append(ops, Op{math.MaxInt64, math.MaxInt64, math.MaxInt64})
		var buf strings.Builder
		for _, op := range ops {
			if err := Write(&buf, op); err != nil {
				t.Fatal(err)
			}
		}
		text := buf.String()
		got, err := Read(text)
		if err != nil || !slices.Equal(got, ops) {
			t.Fatalf("got %v, %v; want %v", got, err, ops)
		}
		// A writer killed anywhere leaves a history of whole operations.
		cut := rapid.IntRange(0, len(text)).Draw(t, "cut")
		got, err = Read(text[:cut])
		if whole := strings.Count(text[:cut], "\n"); err != nil || !slices.Equal(got, ops[:whole]) {
			t.Fatalf("cut: got %v, %v; want %v", got, err, ops[:whole])
		}
	})
}

func TestReadRejects(t *testing.T) {
	for _, bad := range []string{"\n", "1 2\n", "1 2 3 4\n", "1 2 x\n", "2 1 1\n", "-1 2 1\n", "1 2 -3\n",
		"1 2 9223372036854775808\n"} {
		if ops, err := Read("0 1 1\n" + bad); err == nil || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%q was read as %v, %v", bad, ops, err)
		}
	}
}

func TestFilesOfProcessesMerge(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	for name, text := range map[string]string{a: "0 1 4\n", b: "2 3 4\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ops, err := ReadFiles(a, b)
	if err != nil {
		t.Fatal(err)
	}
	if worst, ok := Check(10, 7, ops); ok || worst.Permits != 8 {
		t.Errorf("two processes took %v of 7", worst)
	}
	if _, err := ReadFiles(a, filepath.Join(dir, "none")); err == nil {
		t.Error("a missing file was read")
	}
}

func TestRecorder(t *testing.T) {
	var r Recorder
	var wg sync.WaitGroup
	const goroutines, calls = 8, 1000
	for g := range goroutines {
		wg.Go(func() {
			tally := r.Tally()
			for i := range calls {
				start := Now()
				tally.Add(start, Now(), int64(g+1))
				tally.Add(start, start, 0) // a denial
				if i%100 == 0 {
					r.Ops() // while others record
				}
			}
		})
	}
	wg.Wait()
	ops := r.Ops()
	if len(ops) != goroutines*calls {
		t.Errorf("%d operations, want %d", len(ops), goroutines*calls)
	}
	if got, want := Total(ops), int64(calls*goroutines*(goroutines+1)/2); got != want {
		t.Errorf("%d permits, want %d", got, want)
	}
	ops[0].Permits = 99
	if r.Ops()[0].Permits == 99 {
		t.Error("Ops is not a copy")
	}
}
