package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/pace"
)

func TestSettle(t *testing.T) {
	for _, c := range []struct {
		name    string
		outcome pace.Outcome
		origin  int64
		quiet   bool
		says    []string
		not     []string
	}{
		{"all", pace.Outcome{Lines: 1234, Bytes: 5000}, 0, false,
			[]string{"released 1,234 lines in 2s, all of the input"}, []string{"rest", "tail"}},
		{"all, quietly", pace.Outcome{Lines: 1234}, 0, true, nil, []string{"released"}},
		{"interrupted", pace.Outcome{Err: context.Canceled, Lines: 1, Bytes: 10, Rest: []byte("a\nb\n")}, -1, true,
			[]string{"released 1 line in 2s; interrupted", "2 lines (4 bytes) that were read but not released are in "},
			[]string{"tail", "The output ends"}},
		{"with nothing read ahead", pace.Outcome{Err: context.Canceled, Lines: 3, Bytes: 30}, -1, false,
			[]string{"interrupted", "Every line that was read has been released"}, []string{"are in"}},
		{"a file that began at byte 100", pace.Outcome{Err: context.Canceled, Lines: 3, Bytes: 30, Rest: []byte("x")},
			100, false,
			[]string{"line 4 of the input, at byte 130: tail -c +131"}, nil},
		{"broken pipe",
			pace.Outcome{Err: fmt.Errorf("%w: %w", pace.ErrWrite, os.NewSyscallError("write", syscall.EPIPE)),
				Repeated: 7, Rest: []byte("x\n")}, -1, false,
			[]string{"nobody reads the output any more",
				"ends with the first 7 bytes of a line; the rest has that whole line again"}, nil},
		{"a failed read", pace.Outcome{Err: fmt.Errorf("%w: bad disk", pace.ErrRead), Lines: 2}, -1, false,
			[]string{"reading the input failed: bad disk", "Every line"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b strings.Builder
			j := &paceJob{name: "mails", rest: filepath.Join(t.TempDir(), "rest"), quiet: c.quiet}
			err := j.settle(&b, c.outcome, c.origin, 2*time.Second)
			if (err == nil) != (c.outcome.Err == nil) {
				t.Errorf("error %v", err)
			}
			for _, s := range c.says {
				if !strings.Contains(b.String(), s) {
					t.Errorf("does not say %q: %s", s, b.String())
				}
			}
			for _, s := range c.not {
				if strings.Contains(b.String(), s) {
					t.Errorf("says %q: %s", s, b.String())
				}
			}
			if got := read(t, j.rest); got != string(c.outcome.Rest) {
				t.Errorf("the rest file holds %q", got)
			}
			if _, err := os.Stat(j.rest); len(c.outcome.Rest) == 0 && !errors.Is(err, os.ErrNotExist) {
				t.Errorf("there is a rest file without a rest: %v", err)
			}
		})
	}
}

func TestSaveRest(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	taken := file(t, "taken", "old")
	dir := filepath.Dir(taken)
	for _, path := range []string{filepath.Join(dir, "free"), taken, filepath.Join(dir, "gone", "x")} {
		got, err := saveRest(path, []byte("rest"))
		if err != nil || read(t, got) != "rest" {
			t.Errorf("%s: saved to %q, %v", path, got, err)
		}
		if path == filepath.Join(dir, "free") && got != path {
			t.Errorf("saved to %s instead of %s", got, path)
		}
	}
	if read(t, taken) != "old" {
		t.Error("a file that existed was changed")
	}
	t.Setenv("TMPDIR", filepath.Join(dir, "gone"))
	if got, err := saveRest(filepath.Join(dir, "gone", "x"), []byte("rest")); err == nil {
		t.Errorf("saved to %q, which cannot be", got)
	}
}
