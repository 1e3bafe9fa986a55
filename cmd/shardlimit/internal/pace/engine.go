// Package pace releases the lines of an input as fast as a limit allows that several processes
// share.
//
// Lines are read in large pieces, and every line costs one permit. Whatever happens, it is known
// which bytes were released and which were only read: none is lost or repeated without saying so.
package pace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/clock"
)

// DefaultBacklog is how many bytes an Engine reads at once and holds at most, so that no line may
// have more. It reads nothing more while what it holds can be released.
const DefaultBacklog = 1 << 20

// Errors of an Outcome.
var (
	ErrRead     = errors.New("reading the input failed")
	ErrWrite    = errors.New("writing the output failed")
	ErrLongLine = errors.New("the next line is too long")
)

// Limiter hands out permits, as a *shardlimit.Limiter does.
type Limiter interface {
	// Acquire waits for n permits.
	Acquire(ctx context.Context, n int64) (shardlimit.Decision, error)
	// Settle gives back what of a decision was not used.
	Settle(ctx context.Context, d shardlimit.Decision, used int64) error
	Limit() shardlimit.Limit
}

// Options configure an Engine. All but Backlog are required.
type Options struct {
	Limiter Limiter
	// In must return from Read, with what it has got or an error, soon after the context of Run is
	// done, and consume nothing after that.
	In  io.Reader
	Out io.Writer
	// Backlog is how many bytes are held at most; 0 means DefaultBacklog.
	Backlog int
}

// Engine releases the lines of an input to an output.
type Engine struct {
	Options
	stride  stride
	buffer  []byte
	data    []byte // in the buffer: what was read and not released
	ended   bool   // nothing is left to be read
	readErr error  // why, if that is not the end of the input
	bytes   int64  // released

	// Lines are those released so far, and Waiting those that were read and not released.
	Lines, Waiting atomic.Int64
}

// New returns an engine for one Run.
func New(o Options) *Engine {
	if o.Backlog <= 0 {
		o.Backlog = DefaultBacklog
	}
	return &Engine{Options: o, buffer: make([]byte, o.Backlog)}
}

// Outcome is what Run did.
type Outcome struct {
	// Err is nil if the whole input was released. Otherwise it is the
	// context's error, or wraps one of the errors of this package or of the limiter.
	Err error
	// Lines and Bytes that were released.
	Lines, Bytes int64
	// Rest is what was read but not released.
	Rest []byte
	// Repeated counts the bytes at the beginning of Rest that are in the output
	// too, because a write failed in the middle of their line.
	Repeated int
}

// Run releases lines until the input has ended and everything was released,
// until ctx is done, or until reading, writing or the limiter fails. Lines
// whose permits have been granted are written before it returns, whatever
// happens; those of an ask that is under way when ctx ends may be lost. After a
// failed read, everything that was read is released first.
func (e *Engine) Run(ctx context.Context) Outcome {
	repeated, err := e.release(ctx)
	return Outcome{Err: err, Lines: e.Lines.Load(), Bytes: e.bytes, Rest: e.data, Repeated: repeated}
}

// release returns why it ended, and how much of the data is in the output nevertheless.
func (e *Engine) release(ctx context.Context) (repeated int, err error) {
	for err == nil {
		lines := e.releasable()
		switch {
		case ctx.Err() != nil:
			return 0, ctx.Err()
		case lines > 0:
			repeated, err = e.releaseLines(ctx, lines)
		case e.ended:
			return 0, e.readErr
		case len(e.data) >= e.Backlog:
			return 0, fmt.Errorf("%w: it has more than %d bytes", ErrLongLine, e.Backlog)
		default:
			e.read(ctx)
		}
	}
	return repeated, err
}

// releasable tells how many lines can be released, for a permit each.
func (e *Engine) releasable() (lines int64) {
	lines = int64(bytes.Count(e.data, newline))
	if e.ended && len(e.data) > 0 && e.data[len(e.data)-1] != '\n' {
		lines++ // the last one needs no line break
	}
	e.Waiting.Store(lines)
	return lines
}

// read reads once. It is called when nothing can be released, so there is room.
func (e *Engine) read(ctx context.Context) {
	held := copy(e.buffer, e.data)
	n, err := e.In.Read(e.buffer[held:])
	e.data = e.buffer[:held+n]
	if err == nil || ctx.Err() != nil {
		return
	}
	e.ended = true
	if !errors.Is(err, io.EOF) {
		e.readErr = fmt.Errorf("%w: %w", ErrRead, err)
	}
}

// releaseLines waits for as many permits as there are lines, within its stride, and writes the
// lines.
func (e *Engine) releaseLines(ctx context.Context, lines int64) (repeated int, err error) {
	limit := e.Limiter.Limit()
	ask, wait := e.stride.next(time.Now(), lines, limit.Permits, limit.Per)
	if wait > 0 {
		clock.Sleep(ctx, min(wait, longestNap))
		return 0, nil
	}
	d, err := e.Limiter.Acquire(ctx, ask)
	if errors.Is(err, shardlimit.ErrExceedsLimit) && e.Limiter.Limit().Permits < limit.Permits {
		return 0, nil // it was lowered meanwhile
	}
	if err != nil {
		return 0, err
	}
	e.stride.took(ask)
	end := 0
	for range ask {
		end += lineEnd(e.data[end:])
	}
	return e.write(end, ask, d)
}

// longestNap is how often a changed limit is heard of.
const longestNap = time.Second

// lineEnd is where the first line ends: behind its line break, or with the data.
func lineEnd(data []byte) int {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1
	}
	return len(data)
}

// write writes the first bytes of the data, which are so many lines that d grants. If it fails,
// lines that were written whole are released, and the others stay, and their permits are given
// back.
func (e *Engine) write(length int, lines int64, d shardlimit.Decision) (repeated int, err error) {
	n, err := e.Out.Write(e.data[:length])
	if err == nil && n < length {
		err = io.ErrShortWrite
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrWrite, err)
		whole := bytes.LastIndexByte(e.data[:n], '\n') + 1
		repeated, n, lines = n-whole, whole, int64(bytes.Count(e.data[:n], newline))
		// An error of Settle is left out: those permits come back with the window.
		_ = e.Limiter.Settle(context.Background(), d, lines)
	}
	e.data = e.data[n:]
	e.bytes += int64(n)
	e.Lines.Add(lines)
	return repeated, err
}

var newline = []byte{'\n'}

const (
	partOfLimit = 100              // one ask is for at most this part of the limit
	haste       = 1.25             // how much faster than the whole limit one process may be
	longStretch = 10 * time.Second // windows longer than this are not spread
)

// stride spreads what one process releases: a limit that is free would be gone
// in one burst, and a sliding window repeats its bursts. So a process asks at
// most a little faster than the whole limit is; what it is late by it can catch
// up, and several processes share out a window before one has taken it all. The
// permits of a window of more than longStretch are spread over that much only:
// who may send 100 an hour and has 3 to send does not want to wait.
//
// It is a bucket of lines that fills with time. Time is an argument. Not safe
// for concurrent use.
type stride struct {
	lines float64 // that may be asked for
	at    time.Time
}

// next returns how many of the given lines (at least 1) to ask for at once, under a
// limit of permits in a window, or else how long to wait before asking again.
func (s *stride) next(now time.Time, lines, permits int64, window time.Duration) (ask int64, wait time.Duration) {
	part := max(1, permits/partOfLimit)
	perSecond := haste * float64(permits) / min(window, longStretch).Seconds()
	if s.at.IsZero() {
		s.lines = float64(part)
	} else {
		s.lines = min(s.lines+now.Sub(s.at).Seconds()*perSecond, float64(2*part))
	}
	s.at = now
	ask = min(lines, part) // not less: many small asks would only be work
	if missing := float64(ask) - s.lines; missing > 0 {
		// Rounded up, so that the wait is enough.
		return 0, time.Duration(missing/perSecond*float64(time.Second)) + time.Microsecond
	}
	return ask, 0
}

// took notes that so many lines were granted.
func (s *stride) took(lines int64) { s.lines -= float64(lines) }
