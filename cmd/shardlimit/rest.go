package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/draw"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/pace"
)

// This file is about the end of pace: what becomes of lines that were not released.

// startOf is where in a regular file standard input begins; -1 for anything
// else, which cannot be read again.
func startOf(f *os.File) int64 {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return -1
	}
	offset, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return -1
	}
	return offset
}

// settle saves the rest and describes the outcome. origin is what startOf said.
func (j *paceJob) settle(w io.Writer, o pace.Outcome, origin int64, took time.Duration) error {
	var b strings.Builder
	fmt.Fprintf(&b, "shardlimit: %s: released %s in %s", draw.Name(j.name), draw.Plural(o.Lines, "line"),
		draw.About(took))
	if o.Err == nil && len(o.Rest) == 0 {
		if !j.quiet {
			_, _ = fmt.Fprintf(w, "%s, all of the input\n", b.String())
		}
		return nil
	}
	fmt.Fprintf(&b, "; %s\n", reason(o.Err))
	j.keepRest(&b, o)
	if o.Repeated > 0 {
		fmt.Fprintf(&b, "  The output ends with the first %d bytes of a line; the rest has that whole line again.\n",
			o.Repeated)
	}
	if origin >= 0 {
		next := origin + o.Bytes
		fmt.Fprintf(&b, "  The first line that was not released is line %d of the input, at byte %d: tail -c +%d\n",
			o.Lines+1, next, next+1)
	}
	_, _ = io.WriteString(w, b.String())
	return errTold
}

// keepRest saves what was read but not released, and says where.
func (j *paceJob) keepRest(b *strings.Builder, o pace.Outcome) {
	if len(o.Rest) == 0 {
		b.WriteString("  Every line that was read has been released.\n")
		return
	}
	lines := draw.Plural(int64(bytes.Count(o.Rest, []byte("\n"))), "line")
	path, err := saveRest(j.rest, o.Rest)
	if err != nil {
		fmt.Fprintf(b, "  LOST: %s (%d bytes) that were read but not released could not be saved: %v\n", lines,
			len(o.Rest), err)
		return
	}
	fmt.Fprintf(b, "  %s (%d bytes) that were read but not released are in %s\n", lines, len(o.Rest), path)
}

func reason(err error) string {
	switch {
	case errors.Is(err, syscall.EPIPE):
		return "nobody reads the output any more"
	case errors.Is(err, context.Canceled):
		return "interrupted"
	}
	return oneLine(err)
}

// checkRest makes sure, before anything is read, that the file can probably be
// made at the end, and that it would not replace another.
func checkRest(path string) error {
	if path == "" {
		return errors.New("the name of the file is empty")
	}
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("%s exists already; it may hold lines of an earlier run: use or remove it, or choose "+
			"another name", path)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_, err := os.Stat(filepath.Dir(path))
	return err
}

// saveRest writes a new file and makes sure it is on the disk. If that is not
// possible at path, it tries a new name in the directory for temporary files. It returns where the
// bytes are; the error is nil if they are anywhere.
func saveRest(path string, rest []byte) (string, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		if err = fill(f, rest); err == nil {
			return path, nil
		}
	}
	f, other := os.CreateTemp("", filepath.Base(path)+".*")
	if other == nil {
		if other = fill(f, rest); other == nil {
			return f.Name(), nil
		}
	}
	return "", errors.Join(err, other)
}

// fill writes everything to f and closes it; if it cannot, the file is removed.
func fill(f *os.File, rest []byte) error {
	_, err := f.Write(rest)
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
