package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/draw"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/pace"
)

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
	if j.json {
		return j.settleJSON(w, o, origin, took)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "shardlimit: %s: released %s in %s", draw.Name(j.name), lineCount(o.Lines), draw.About(took))
	if o.Err == nil && len(o.Rest) == 0 {
		b.WriteString(", all of the input\n")
		if !j.quiet {
			_, _ = io.WriteString(w, b.String())
		}
		return nil
	}
	fmt.Fprintf(&b, "; %s\n", reason(o.Err))
	j.keepRest(&b, o)
	switch {
	case o.Repeated > 0:
		fmt.Fprintf(&b, "  The output ends with the first %d bytes of a line; the rest has that whole line again.\n",
			o.Repeated)
	case o.Torn:
		b.WriteString("  The output ends inside a very long line, which goes on where the rest or the unread input " +
			"begins.\n")
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
	lines := restLines(o.Rest)
	path, err := saveRest(j.rest, o.Rest)
	if err != nil {
		fmt.Fprintf(b, "  LOST: %s (%d bytes) that were read but not released could not be saved: %v\n",
			lineCount(lines), len(o.Rest), err)
		return
	}
	fmt.Fprintf(b, "  %s (%d bytes) that were read but not released are in %s\n", lineCount(lines), len(o.Rest), path)
}

func restLines(rest []byte) int64 { return int64(bytes.Count(rest, []byte("\n"))) }

// outcomeJSON is the last line of pace --json. The names of its fields are a promise to scripts.
type outcomeJSON struct {
	Name      string `json:"name"`
	State     string `json:"state"` // done or ended
	Reason    string `json:"reason"`
	Released  int64  `json:"released"`
	TookUS    int64  `json:"took_us"`
	RestFile  string `json:"rest_file,omitempty"`
	RestLines int64  `json:"rest_lines"`
	RestBytes int    `json:"rest_bytes"`
	Repeated  int    `json:"repeated_bytes"` // with which the output ends and the rest begins again
	Torn      bool   `json:"torn"`           // the output ends inside a line that the rest goes on with
	NextLine  int64  `json:"next_line,omitempty"`
	NextByte  int64  `json:"next_byte,omitempty"`
	Error     string `json:"error,omitempty"` // the rest could not be saved
}

// settleJSON is settle for programs.
func (j *paceJob) settleJSON(w io.Writer, o pace.Outcome, origin int64, took time.Duration) error {
	out := outcomeJSON{Name: j.name, State: "done", Reason: reason(o.Err), Released: o.Lines,
		TookUS: took.Microseconds(), RestLines: restLines(o.Rest), RestBytes: len(o.Rest), Repeated: o.Repeated,
		Torn: o.Torn}
	done := o.Err == nil && len(o.Rest) == 0
	if !done {
		out.State = "ended"
		if origin >= 0 {
			out.NextLine, out.NextByte = o.Lines+1, origin+o.Bytes
		}
	}
	if len(o.Rest) > 0 {
		path, err := saveRest(j.rest, o.Rest)
		if out.RestFile = path; err != nil {
			out.Error = oneLine(err)
		}
	}
	_ = json.NewEncoder(w).Encode(out)
	if done {
		return nil
	}
	return errTold
}

func lineCount(n int64) string { return draw.Plural(n, "line") }

func reason(err error) string {
	switch {
	case err == nil:
		return "done"
	case errors.Is(err, syscall.EPIPE):
		return "nobody reads the output any more"
	case errors.Is(err, context.Canceled):
		return "interrupted"
	}
	return oneLine(err)
}
