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

// The tool tells in full which lines were released and which were not, and keeps the rest in its
// file, if there is one.
func TestSettle(t *testing.T) {
	const kept = " that were read but not released are in REST\n"
	const none = "  Every line that was read has been released.\n"
	for _, c := range []struct {
		outcome pace.Outcome
		origin  int64
		quiet   bool
		want    string // behind the name of the limit
	}{
		{pace.Outcome{Lines: 1234, Bytes: 5000}, 0, false, "released 1,234 lines in 2s, all of the input\n"},
		{pace.Outcome{Lines: 1234}, 0, true, ""},
		{pace.Outcome{Err: context.Canceled, Lines: 1, Bytes: 10, Rest: []byte("a\nb\n")}, -1, true,
			"released 1 line in 2s; interrupted\n  2 lines (4 bytes)" + kept},
		{pace.Outcome{Err: context.Canceled, Lines: 3, Bytes: 30}, -1, false,
			"released 3 lines in 2s; interrupted\n" + none},
		{pace.Outcome{Err: context.Canceled, Lines: 3, Bytes: 30, Rest: []byte("x")}, 100, false, // of a file
			"released 3 lines in 2s; interrupted\n  0 lines (1 bytes)" + kept +
				"  The first line that was not released is line 4 of the input, at byte 130: tail -c +131\n"},
		{pace.Outcome{Err: fmt.Errorf("%w: %w", pace.ErrWrite, os.NewSyscallError("write", syscall.EPIPE)),
			Repeated: 7, Rest: []byte("x\n")}, -1, false,
			"released 0 lines in 2s; nobody reads the output any more\n  1 line (2 bytes)" + kept +
				"  The output ends with the first 7 bytes of a line; the rest has that whole line again.\n"},
		{pace.Outcome{Err: fmt.Errorf("%w: bad disk", pace.ErrRead), Lines: 2}, -1, false,
			"released 2 lines in 2s; reading the input failed: bad disk\n" + none},
	} {
		var b strings.Builder
		j := &paceJob{name: "mails", rest: filepath.Join(t.TempDir(), "rest"), quiet: c.quiet}
		err := j.settle(&b, c.outcome, c.origin, 2*time.Second)
		got := strings.ReplaceAll(strings.TrimPrefix(b.String(), "shardlimit: mails: "), j.rest, "REST")
		if got != c.want || (err == nil) != (c.outcome.Err == nil) {
			t.Errorf("%+v: %v, %q, want %q", c.outcome, err, got, c.want)
		}
		if got := read(t, j.rest); got != string(c.outcome.Rest) {
			t.Errorf("the rest file holds %q", got)
		}
		if _, err := os.Stat(j.rest); len(c.outcome.Rest) == 0 && !errors.Is(err, os.ErrNotExist) {
			t.Errorf("there is a rest file without a rest: %v", err)
		}
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
