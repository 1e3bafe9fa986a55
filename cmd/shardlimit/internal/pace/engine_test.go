package pace

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/clock"
)

// logGate is a sliding log of permits by the (fake) clock of the bubble, with
// a round trip that takes a millisecond.
type logGate struct {
	permits int64
	raised  atomic.Int64 // if not 0, replaces permits
	per     time.Duration
	granted int64       // in all
	used    []time.Time // one per permit
	largest int64       // ask
	asks    int
	closed  bool
	settled bool
	onAsk   func()
}

const (
	roundTrip = time.Millisecond
	plenty    = 1_000_000_000_000 // permits that never hold anybody back, and take no time
)

func (g *logGate) Limit() shardlimit.Limit { return shardlimit.Limit{Permits: g.now(), Per: g.per} }

// now is how many permits there are now.
func (g *logGate) now() int64 { return cmp.Or(g.raised.Load(), g.permits) }

func (g *logGate) Acquire(ctx context.Context, n int64) (shardlimit.Decision, error) {
	g.asks++
	g.largest = max(g.largest, n)
	if g.onAsk != nil {
		g.onAsk()
	}
	if g.permits < plenty {
		time.Sleep(roundTrip)
	}
	if g.closed {
		return shardlimit.Decision{}, fmt.Errorf("%w: by the test", shardlimit.ErrClosed)
	}
	for {
		if err := ctx.Err(); err != nil {
			return shardlimit.Decision{}, err
		}
		now := time.Now()
		for len(g.used) > 0 && now.Sub(g.used[0]) >= g.per {
			g.used = g.used[1:]
		}
		if n <= g.now()-int64(len(g.used)) {
			break
		}
		clock.Sleep(ctx, roundTrip)
	}
	g.granted += n
	for range n {
		g.used = append(g.used, time.Now())
	}
	return shardlimit.Decision{Granted: n}, nil
}

func (g *logGate) Settle(ctx context.Context, d shardlimit.Decision, used int64) error {
	g.granted += used - d.Granted
	g.settled = true
	return ctx.Err()
}

// sink is an output that may fail.
type sink struct {
	mu sync.Mutex
	bytes.Buffer
	fail int // accept this many bytes in all, then fail; 0: never
}

var errSink = errors.New("sink is full")

// String is what came so far; it may be asked for meanwhile.
func (s *sink) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Buffer.String()
}

func (s *sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail > 0 && s.Len()+len(p) > s.fail {
		n := s.fail - s.Len()
		s.Buffer.Write(p[:n])
		return n, errSink
	}
	return s.Buffer.Write(p)
}

// pipe is an input that obeys ctx the way Options.In asks for.
func pipe(ctx context.Context) (io.Reader, *io.PipeWriter) {
	r, w := io.Pipe()
	context.AfterFunc(ctx, func() { r.CloseWithError(ctx.Err()) })
	return r, w
}

func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	return b.String()
}

func TestReleasesEveryLineOnceAtTheRate(t *testing.T) {
	for _, end := range []string{"", "no line break at the end"} {
		synctest.Test(t, func(t *testing.T) {
			in, lines, began := numbered(2499)+"a\r\n"+end, int64(2500+min(len(end), 1)), time.Now()
			gate, out := &logGate{permits: 1000, per: time.Second}, &sink{}
			o := New(Options{Limiter: gate, In: strings.NewReader(in), Out: out}).Run(t.Context())
			if o.Err != nil || len(o.Rest) > 0 || o.Repeated != 0 || out.String() != in {
				t.Errorf("%d bytes in, outcome %+v, %d bytes out", len(in), o, out.Len())
			}
			if o.Lines != lines || o.Bytes != int64(len(in)) {
				t.Errorf("counted %d lines, %d bytes; want %d, %d", o.Lines, o.Bytes, lines, len(in))
			}
			if gate.largest > 10 {
				t.Errorf("asked for %d permits at once; a hundredth of 1000 is the most", gate.largest)
			}
			if took := time.Since(began); took < 2*time.Second || took > 3*time.Second {
				t.Errorf("%d lines took %s", lines, took)
			}
		})
	}
}

func TestALineIsVisibleWhenItIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, feed := pipe(t.Context())
		out := &sink{}
		e := New(Options{Limiter: &logGate{permits: 1, per: 10 * time.Second}, In: in, Out: out})
		done := make(chan Outcome)
		go func() { done <- e.Run(t.Context()) }()
		_, _ = io.WriteString(feed, "first\nsecond\nthi")
		time.Sleep(time.Second)
		synctest.Wait()
		if out.String() != "first\n" {
			t.Errorf("after a second the output is %q", out.String())
		}
		if e.Lines.Load() != 1 || e.Waiting.Load() != 1 {
			t.Errorf("%d lines, %d waiting", e.Lines.Load(), e.Waiting.Load())
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if out.String() != "first\nsecond\n" {
			t.Errorf("after eleven seconds the output is %q: half a line must wait for its end", out.String())
		}
		if e.Waiting.Load() != 0 {
			t.Errorf("%d waiting", e.Waiting.Load())
		}
		_, _ = io.WriteString(feed, "rd")
		_ = feed.Close()
		if o := <-done; o.Err != nil || out.String() != "first\nsecond\nthird" {
			t.Errorf("outcome %+v, output %q", o, out.String())
		}
	})
}

func TestInterruptLosesNothing(t *testing.T) {
	for after := range 40 {
		synctest.Test(t, func(t *testing.T) {
			ctx, interrupt := context.WithCancel(t.Context())
			in, feed := pipe(ctx)
			var input, sent strings.Builder
			input.WriteString(numbered(500))
			go func() { // feeds in odd pieces, for ever
				for text := input.String(); len(text) > 0; {
					n := min(len(text), 37)
					m, err := io.WriteString(feed, text[:n])
					sent.WriteString(text[:m])
					if err != nil {
						return
					}
					text = text[n:]
				}
			}()
			gate, out := &logGate{permits: 200, per: time.Second}, &sink{}
			if after%2 == 1 { // in the middle of an ask
				gate.onAsk = func() {
					if gate.asks == after {
						interrupt()
					}
				}
			} else {
				time.AfterFunc(time.Duration(after)*70*time.Millisecond, interrupt)
			}
			e := New(Options{Limiter: gate, In: in, Out: out, Backlog: 1000})
			o := e.Run(ctx)
			synctest.Wait()
			if !errors.Is(o.Err, context.Canceled) {
				t.Errorf("error %v", o.Err)
			}
			if got := out.String() + string(o.Rest); got != sent.String() {
				t.Errorf("released %d + rest %d bytes are not the %d that were read", out.Len(), len(o.Rest),
					sent.Len())
			}
			if int64(strings.Count(out.String(), "\n")) != gate.granted || o.Repeated > 0 {
				t.Errorf("%d permits granted, %d lines released, %d bytes twice", gate.granted,
					strings.Count(out.String(), "\n"), o.Repeated)
			}
			interrupt()
		})
	}
}

// late is an input whose last read ends with data, a while after the interrupt.
type late struct{ ctx context.Context }

func (l late) Read(p []byte) (int, error) {
	<-l.ctx.Done()
	time.Sleep(time.Second)
	return copy(p, "late\n"), l.ctx.Err()
}

func TestInterruptWaitsForTheReadUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, interrupt := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, interrupt)
		o := New(Options{Limiter: &logGate{permits: 10, per: time.Second}, In: late{ctx}, Out: &sink{}}).Run(ctx)
		if !errors.Is(o.Err, context.Canceled) || string(o.Rest) != "late\n" {
			t.Errorf("outcome %+v", o)
		}
	})
}

func TestGateClosedEndsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := &logGate{permits: 1, per: time.Second, closed: true}
		o := New(Options{Limiter: gate, In: strings.NewReader("a\n"), Out: &sink{}}).Run(t.Context())
		if !errors.Is(o.Err, shardlimit.ErrClosed) || string(o.Rest) != "a\n" {
			t.Errorf("outcome %+v", o)
		}
	})
}

func TestARaisedLimitIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate, out := &logGate{permits: 1, per: time.Hour}, &sink{}
		time.AfterFunc(10*time.Second, func() { gate.raised.Store(1000) })
		began := time.Now()
		o := New(Options{Limiter: gate, In: strings.NewReader(numbered(900)), Out: out}).Run(t.Context())
		if o.Err != nil || time.Since(began) > 20*time.Second || gate.largest != 10 {
			t.Errorf("outcome %+v after %s, largest ask %d", o, time.Since(began), gate.largest)
		}
	})
}
