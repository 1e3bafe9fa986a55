package pace

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
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
	fails   error
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
	for {
		if err := cmp.Or(g.fails, ctx.Err()); err != nil {
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

func TestALimiterThatFailsEndsTheRun(t *testing.T) {
	gate := &logGate{permits: plenty, per: 1, fails: shardlimit.ErrClosed}
	o := New(Options{Limiter: gate, In: strings.NewReader("a\n"), Out: &sink{}}).Run(t.Context())
	if !errors.Is(o.Err, shardlimit.ErrClosed) || string(o.Rest) != "a\n" {
		t.Errorf("outcome %+v", o)
	}
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

func TestStrideIsALittleFasterThanTheLimit(t *testing.T) {
	for _, c := range []struct {
		permits int64
		window  time.Duration
		fill    time.Duration // how long one process takes at least for a window's permits
	}{
		{5000, time.Second, 800 * time.Millisecond},
		{3, time.Second, 800 * time.Millisecond},
		{5, 10 * time.Millisecond, 8 * time.Millisecond},
		{1000, time.Hour, 8 * time.Second},
	} {
		s, total, part, last := &stride{}, int64(0), max(1, c.permits/partOfLimit), time.Duration(-1)
		for now := time.Duration(0); now < 10*c.fill; {
			n, wait := s.next(time.Unix(0, 0).Add(now), 1<<40, c.permits, c.window)
			if n > part || n > 0 && now == last {
				t.Fatalf("%d per %s: an ask for %d at %s, the last one at %s", c.permits, c.window, n, now, last)
			}
			if n > 0 {
				s.took(n)
				total, last = total+n, now
			}
			now += wait
		}
		if most, least := 10*c.permits+2*part, 10*c.permits-2*part; total > most || total < least {
			t.Errorf("%d per %s: %d in %s, want about %d", c.permits, c.window, total, 10*c.fill, 10*c.permits)
		}
	}
}

func TestStrideDoesNotHoldASingleLineBack(t *testing.T) {
	s, t0 := &stride{}, time.Unix(0, 0)
	for i := range 10 { // one line a second under 100/s
		if n, wait := s.next(t0.Add(time.Duration(i)*time.Second), 1, 100, time.Second); n != 1 || wait != 0 {
			t.Fatalf("line %d: ask %d, wait %s", i, n, wait)
		}
		s.took(1)
	}
}

// Idle time is not saved up.
func TestStrideAfterAPause(t *testing.T) {
	s, t0 := &stride{}, time.Unix(0, 0)
	_, _ = s.next(t0, 1, 1000, time.Second)
	got := int64(0)
	for {
		n, _ := s.next(t0.Add(time.Hour), 1000, 1000, time.Second)
		if n == 0 {
			break
		}
		s.took(n)
		got += n
	}
	if got != 20 {
		t.Errorf("after an hour %d lines may go at once, want two asks of a hundredth", got)
	}
}

// FuzzRun: whatever the input, the size of the backlog and of the reads, all lines come out
// unchanged, for a permit each; and if writing stops somewhere, or a line is too long, the output
// without a torn line's beginning, and the rest, are the input, and permits of lines that did not
// come out are given back.
func FuzzRun(f *testing.F) {
	f.Add([]byte(""), uint8(4), false, uint8(0))
	f.Add([]byte("a\nb\n\nlast"), uint8(4), false, uint8(0))
	f.Add([]byte("a line that is longer than the backlog\nb\n"), uint8(5), true, uint8(3))
	f.Add([]byte("a\nthis line is too long\nb\n"), uint8(10), false, uint8(0))
	f.Add(bytes.Repeat([]byte("\n"), 100), uint8(1), false, uint8(50))
	for accept := range uint8(15) {
		f.Add([]byte("aaaa\nbbbb\ncccc\n"), uint8(0), false, accept)
	}
	f.Fuzz(func(t *testing.T, in []byte, backlog uint8, slow bool, accept uint8) {
		var source io.Reader = bytes.NewReader(in)
		if slow {
			source = iotest.OneByteReader(source)
		}
		gate, out := &logGate{permits: plenty, per: 1}, &sink{fail: int(accept)}
		o := New(Options{Limiter: gate, In: source, Out: out, Backlog: int(backlog)}).Run(t.Context())
		long := slices.ContainsFunc(bytes.Split(in, newline), func(line []byte) bool {
			return backlog > 0 && len(line) >= int(backlog)
		})
		fails := accept > 0 && len(in) > int(accept)
		unread, _ := io.ReadAll(source)
		released := out.Bytes()[:out.Len()-o.Repeated]
		lines := int64(bytes.Count(released, newline))
		if len(in) > 0 && len(released) == len(in) && in[len(in)-1] != '\n' {
			lines++
		}
		got := append(append(bytes.Clone(released), o.Rest...), unread...)
		if !bytes.Equal(got, in) || o.Lines != lines || o.Bytes != int64(len(released)) || gate.granted != lines {
			t.Fatalf("%q, writing stops after %d bytes: outcome %+v, %d permits, together %q", in, accept, o,
				gate.granted, got)
		}
		expected := o.Err == nil && !long && !fails && !gate.settled ||
			errors.Is(o.Err, ErrLongLine) && long || errors.Is(o.Err, errSink) && errors.Is(o.Err, ErrWrite) && fails
		if !expected {
			t.Fatalf("%q, writing stops after %d bytes: outcome %+v", in, accept, o)
		}
	})
}
