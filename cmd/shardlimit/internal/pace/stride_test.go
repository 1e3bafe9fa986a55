package pace

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"
	"testing/iotest"
	"time"
)

// follow lets a stride run for a while with as many lines as it likes, and
// returns when it asked for how much.
func follow(s *stride, length time.Duration, lines, permits int64,
	window time.Duration) (at []time.Duration, asked []int64) {
	t0 := time.Unix(0, 0).UTC()
	for now := time.Duration(0); now < length; {
		n, wait := s.next(t0.Add(now), lines, permits, window)
		if n == 0 {
			now += wait
			continue
		}
		s.took(n)
		at, asked = append(at, now), append(asked, n)
	}
	return at, asked
}

func sum(ns []int64) (total int64) {
	for _, n := range ns {
		total += n
	}
	return total
}

func TestStrideIsALittleFasterThanTheLimit(t *testing.T) {
	for _, c := range []struct {
		permits int64
		window  time.Duration
		fill    time.Duration // how long one process takes at least for a window's permits
	}{
		{5000, time.Second, 800 * time.Millisecond},
		{3, time.Second, 800 * time.Millisecond},
		{1_000_000, time.Second, 800 * time.Millisecond},
		{50, 10 * time.Second, 8 * time.Second},
		{5, 10 * time.Millisecond, 8 * time.Millisecond},
		{1000, time.Hour, 8 * time.Second},
	} {
		at, asked := follow(&stride{}, 10*c.fill, 1<<40, c.permits, c.window)
		total, part := sum(asked), max(1, c.permits/partOfLimit)
		if most, least := 10*c.permits+2*part, 10*c.permits-2*part; total > most || total < least {
			t.Errorf("%d per %s: %d in %s, want about %d", c.permits, c.window, total, 10*c.fill, 10*c.permits)
		}
		for i, n := range asked {
			if n > part {
				t.Fatalf("%d per %s: an ask for %d", c.permits, c.window, n)
			}
			if i > 0 && at[i] == at[i-1] {
				t.Fatalf("%d per %s: two asks at %s", c.permits, c.window, at[i])
			}
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
