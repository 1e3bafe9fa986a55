package pace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/shardlimit/shardlimit/internal/clock"
)

// DefaultBacklog is how far an Engine reads ahead, in bytes. Lines larger than
// that are streamed.
const DefaultBacklog = 1 << 20

const (
	readSize     = 64 << 10
	shortestNap  = 100 * time.Microsecond
	longestNap   = time.Second // a raised limit or what was given back must not go unnoticed for longer
	firstBackoff = 50 * time.Millisecond
	lastBackoff  = time.Second
)

// Errors that a Gate or an Outcome wraps.
var (
	// ErrGateClosed is what a Gate wraps in an error that asking again cannot cure.
	ErrGateClosed = errors.New("the limiter cannot be used")
	// ErrRead, ErrWrite and ErrAudit say which file failed.
	ErrRead  = errors.New("reading the input failed")
	ErrWrite = errors.New("writing the output failed")
	ErrAudit = errors.New("writing the audit log failed")
)

// Output takes the released lines.
type Output interface {
	// Ready blocks until a write would not have to wait, so that no permit is
	// spent on a line that nobody takes yet. It returns an error if ctx is done
	// or writing has become impossible.
	Ready(ctx context.Context) error
	io.Writer
}

// Options configure an Engine. Gate, In, Out, Permits and Per are
// required.
type Options struct {
	Gate Gate
	// In is read ahead of the release. Its Read must return, with what it has
	// got or an error, soon after the context of Run is done, and consume
	// nothing after that.
	In  io.Reader
	Out Output
	// Permits in a window of Per, until the Gate tells other numbers; at least 1.
	Permits int64
	Per     time.Duration
	// Backlog is how many bytes are read ahead; 0 means DefaultBacklog.
	Backlog int
	// Audit, if set, is told about every batch after it was written: the times
	// by Now before the permits were asked for and after the write, and the
	// number of lines. The permits were granted somewhere between.
	Audit func(start, end, lines int64) error
	// Now is the clock of Audit, in nanoseconds; only needed with it.
	Now func() int64
}

// Engine releases the lines of an input to an output.
type Engine struct {
	Options
	backlog *backlog
	meter   meter
	stride  stride
	readErr error  // set by the reader before it ends the backlog
	batch   []byte // reused
}

// New returns an engine for one Run.
func New(o Options) *Engine {
	if o.Backlog <= 0 {
		o.Backlog = DefaultBacklog
	}
	return &Engine{Options: o, backlog: newBacklog(o.Backlog)}
}

// Outcome is what Run did.
type Outcome struct {
	// Err is nil if the whole input was released. Otherwise it is the
	// context's error, or wraps one of the errors of this package.
	Err error
	// Lines and Bytes that were released.
	Lines, Bytes int64
	// Rest is what was read but not released.
	Rest []byte
	// Torn says that the output ends inside a line. If Repeated is 0, that line
	// was larger than the backlog and goes on where the rest begins.
	Torn bool
	// Repeated counts the bytes at the beginning of Rest that are in the output
	// too, because a write failed in the middle of their line.
	Repeated int
}

// Run releases lines until the input has ended and everything was released,
// until ctx is done, or until reading, writing or the gate fails for good. Lines
// whose permits have been granted are written before it returns, whatever
// happens; an ask that is under way when ctx ends is waited for, because its
// permits may be spent already. After a failed read, everything that was read
// is released first.
func (e *Engine) Run(ctx context.Context) Outcome {
	reading, stop := context.WithCancel(ctx)
	read := make(chan struct{})
	go func() {
		defer close(read)
		e.read(reading)
	}()
	out := e.release(ctx)
	stop()
	<-read // from here on nothing is taken from the input
	out.Lines, out.Bytes = e.meter.lines.Load(), e.meter.bytes.Load()
	out.Torn = out.Torn || e.backlog.torn()
	out.Rest = e.backlog.rest()
	return out
}

// read fills the backlog until the input ends or ctx is done.
func (e *Engine) read(ctx context.Context) {
	buffer := make([]byte, readSize)
	for {
		room, err := e.backlog.room(ctx)
		if err != nil {
			return
		}
		n, err := e.In.Read(buffer[:min(room, len(buffer))])
		e.backlog.put(buffer[:n])
		switch {
		case errors.Is(err, io.EOF):
			e.backlog.end()
			return
		case err != nil && ctx.Err() != nil:
			return
		case err != nil:
			e.readErr = fmt.Errorf("%w: %w", ErrRead, err)
			e.backlog.end()
			return
		}
	}
}

// release empties the backlog; the outcome has Err, Torn and Repeated.
func (e *Engine) release(ctx context.Context) Outcome {
	for {
		e.meter.enter(WaitingForInput)
		r, err := e.backlog.wait(ctx)
		switch {
		case err != nil:
			return Outcome{Err: err}
		case r.done:
			return Outcome{Err: e.readErr}
		case r.paid == 0 && ctx.Err() != nil:
			return Outcome{Err: ctx.Err()}
		}
		var out Outcome
		if r.paid > 0 {
			e.batch = e.backlog.head(e.batch[:0], r.paid)
			out = e.write(Grant{}, 0)
		} else {
			out = e.releaseLines(ctx, r.lines)
		}
		if out.Err != nil {
			return out
		}
	}
}

// releaseLines asks for as many permits as there are lines, within reason, and
// writes as many lines as it got permits.
func (e *Engine) releaseLines(ctx context.Context, lines int64) Outcome {
	e.meter.enter(WaitingForOutput)
	if err := e.Out.Ready(ctx); err != nil {
		return Outcome{Err: writeError(ctx, err)}
	}
	var start int64
	if e.Audit != nil {
		start = e.Now()
	}
	grant, err := e.take(ctx, lines)
	if err != nil || grant.Permits == 0 {
		return Outcome{Err: err}
	}
	e.batch = e.backlog.front(e.batch[:0], grant.Permits)
	return e.write(grant, start)
}

func writeError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("%w: %w", ErrWrite, err)
}

// take asks the gate once, in its stride, and if it was granted nothing, sleeps
// until it is time to ask again.
func (e *Engine) take(ctx context.Context, lines int64) (Grant, error) {
	e.meter.enter(WaitingForPermits)
	ask, wait := e.stride.next(time.Now(), lines, e.Permits, e.Per)
	if wait > 0 {
		return Grant{}, sleep(ctx, min(wait, longestNap))
	}
	grant, err := e.Gate.Take(context.WithoutCancel(ctx), ask)
	if err == nil {
		e.meter.answered()
		if grant.Limit > 0 && grant.Per > 0 {
			e.Permits, e.Per = grant.Limit, grant.Per
		}
		if grant.Permits > 0 {
			e.stride.took(grant.Permits)
			return grant, nil
		}
		return Grant{}, sleep(ctx, min(max(grant.RetryAfter, shortestNap), longestNap))
	}
	if errors.Is(err, ErrGateClosed) {
		return Grant{}, err
	}
	return Grant{}, sleep(ctx, e.meter.failed(err))
}

// write writes the batch, which was paid for by grant (or earlier), and counts it.
func (e *Engine) write(grant Grant, start int64) Outcome {
	e.meter.enter(WaitingForOutput)
	n, err := e.Out.Write(e.batch)
	if err == nil && n < len(e.batch) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return e.cut(grant, start, n, err)
	}
	e.backlog.drop(n)
	e.meter.released(grant.Permits, int64(n))
	return Outcome{Err: e.audit(start, grant.Permits)}
}

// cut settles a batch of which only the first n bytes could be written. Lines
// that were written whole are released; the others stay.
func (e *Engine) cut(grant Grant, start int64, n int, err error) Outcome {
	out := Outcome{Err: fmt.Errorf("%w: %w", ErrWrite, err)}
	if grant.Permits == 0 || n == 0 { // more of a begun line, or nothing at all
		e.backlog.drop(n)
		e.meter.released(0, int64(n))
		if n == 0 && grant.Permits > 0 && grant.GiveBack != nil {
			// The caller is about to leave, and a node may be slow: bounded by the gate.
			grant.GiveBack(context.Background())
		}
		return out
	}
	written := e.batch[:n]
	whole, lines := bytes.LastIndexByte(written, '\n')+1, int64(bytes.Count(written, newline))
	out.Repeated = n - whole
	out.Torn = out.Repeated > 0
	e.backlog.drop(whole)
	e.meter.released(lines, int64(whole))
	if auditErr := e.audit(start, lines); auditErr != nil {
		out.Err = errors.Join(out.Err, auditErr)
	}
	return out
}

func (e *Engine) audit(start, lines int64) error {
	if e.Audit == nil || lines == 0 {
		return nil
	}
	if err := e.Audit(start, e.Now(), lines); err != nil {
		return fmt.Errorf("%w: %w", ErrAudit, err)
	}
	return nil
}

// sleep waits for d or until ctx is done, and returns the context's error.
func sleep(ctx context.Context, d time.Duration) error {
	clock.Sleep(ctx, d)
	return ctx.Err()
}
