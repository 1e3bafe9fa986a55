package pace

import (
	"bytes"
	"context"
	"io"
	"testing"
	"testing/iotest"
)

// generous grants 1 to n permits, and counts them.
type generous struct{ asks, granted int64 }

func (g *generous) Take(_ context.Context, n int64) (Grant, error) {
	g.asks++
	granted := 1 + g.asks%n
	g.granted += granted
	return Grant{Permits: granted}, nil
}

// plenty is a limit that a stride never holds back.
const plenty = 1_000_000_000_000

// FuzzRun: whatever the input, the size of the backlog and of the reads, all
// lines come out unchanged, for a permit each; and if writing stops somewhere,
// the output without a torn line's beginning, and the rest, are the input.
func FuzzRun(f *testing.F) {
	f.Add([]byte("a\nb\n\nlast"), uint8(4), false, uint8(0))
	f.Add([]byte("a line that is longer than the backlog\nb\n"), uint8(5), true, uint8(3))
	f.Add(bytes.Repeat([]byte("\n"), 100), uint8(1), false, uint8(50))
	f.Fuzz(func(t *testing.T, in []byte, backlog uint8, slow bool, accept uint8) {
		var source io.Reader = bytes.NewReader(in)
		if slow {
			source = iotest.OneByteReader(source)
		}
		gate, out := &generous{}, &sink{fail: int(accept)}
		o := New(Options{Gate: gate, In: source, Out: out, Permits: plenty, Per: 1,
			Backlog: int(backlog)}).Run(t.Context())
		if accept == 0 || len(in) <= int(accept) {
			lines := int64(bytes.Count(in, newline))
			if len(in) > 0 && in[len(in)-1] != '\n' {
				lines++
			}
			if o.Err != nil || !bytes.Equal(out.Bytes(), in) || o.Lines != lines || gate.granted != lines || o.Torn {
				t.Fatalf("%q: outcome %+v, %d permits, output %q", in, o, gate.granted, out.Bytes())
			}
			return
		}
		unread, _ := io.ReadAll(source)
		released := out.Bytes()[:out.Len()-o.Repeated]
		if got := append(append(bytes.Clone(released), o.Rest...), unread...); o.Err == nil || !bytes.Equal(got, in) {
			t.Fatalf("%q, writing stops after %d bytes: outcome %+v, together %q", in, accept, o, got)
		}
	})
}
