package pace

import (
	"bytes"
	"context"
	"sync"
)

// backlog holds what has been read but not released, in one buffer of bounded
// size. One goroutine fills it (room, put, end), one empties it (wait, front,
// drop); status may be read by any.
//
// A line that is larger than the whole backlog is a stream: its first bytes
// cost the permit of the line, the others follow as they are read.
type backlog struct {
	limit int // bytes

	mu     sync.Mutex
	data   []byte // from the first byte that was not released
	breaks int    // line breaks in data
	inside bool   // data continues a line that was paid for
	ended  bool   // nothing will be put any more

	filled chan struct{} // capacity 1: something was put, or the input ended
	gone   chan struct{} // capacity 1: something was dropped
}

func newBacklog(limit int) *backlog {
	return &backlog{limit: limit, filled: make(chan struct{}, 1), gone: make(chan struct{}, 1)}
}

// room waits until something can be put, and returns how many bytes can. While
// there are lines to release it waits for a good piece of room, so that one
// released line is not followed by one tiny read; but it lets a line that fills
// the backlog fill it to the last byte.
func (b *backlog) room(ctx context.Context) (int, error) {
	for {
		b.mu.Lock()
		n := b.limit - len(b.data)
		enough := n >= max(1, b.limit/16) || (n > 0 && b.breaks == 0)
		b.mu.Unlock()
		if enough {
			return n, nil
		}
		select {
		case <-b.gone:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// put appends p, which must not be more than room returned.
func (b *backlog) put(p []byte) {
	if len(p) == 0 {
		return
	}
	b.mu.Lock()
	b.data = append(b.data, p...)
	b.breaks += bytes.Count(p, newline)
	b.mu.Unlock()
	signal(b.filled)
}

// end says that nothing will be put any more.
func (b *backlog) end() {
	b.mu.Lock()
	b.ended = true
	b.mu.Unlock()
	signal(b.filled)
}

// ready is what can be released: paid bytes of a begun line, which come first
// and cost nothing, or else a number of lines, each for one permit.
type ready struct {
	paid  int // bytes
	lines int64
	done  bool // neither now nor ever
}

// wait waits until something can be released or everything was.
func (b *backlog) wait(ctx context.Context) (ready, error) {
	for {
		if r := b.look(); r != (ready{}) {
			return r, nil
		}
		select {
		case <-b.filled:
		case <-ctx.Done():
			return ready{}, ctx.Err()
		}
	}
}

func (b *backlog) look() ready {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.data) == 0 {
		return ready{done: b.ended}
	}
	if b.inside {
		if i := bytes.IndexByte(b.data, '\n'); i >= 0 {
			return ready{paid: i + 1}
		}
		return ready{paid: len(b.data)}
	}
	return ready{lines: b.whole()}
}

// whole counts the lines that can be released for a permit each: the last one
// needs no line break if nothing can follow in the buffer.
func (b *backlog) whole() int64 {
	n := b.breaks
	if n == 0 && len(b.data) >= b.limit {
		return 1 // the beginning of a line that is larger than the backlog
	}
	if b.ended && len(b.data) > 0 && b.data[len(b.data)-1] != '\n' {
		n++
	}
	return int64(n)
}

// front copies the first n lines (or, if there are fewer, all there is) to the end of dst.
func (b *backlog) front(dst []byte, n int64) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	end := 0
	for ; n > 0 && end < len(b.data); n-- {
		i := bytes.IndexByte(b.data[end:], '\n')
		if i < 0 {
			end = len(b.data)
			break
		}
		end += i + 1
	}
	return append(dst, b.data[:end]...)
}

// head copies the first n bytes to the end of dst.
func (b *backlog) head(dst []byte, n int) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append(dst, b.data[:n]...)
}

// drop forgets the first n bytes: they were released.
func (b *backlog) drop(n int) {
	if n == 0 {
		return
	}
	b.mu.Lock()
	released := b.data[:n]
	b.breaks -= bytes.Count(released, newline)
	b.inside = released[n-1] != '\n'
	b.data = b.data[n:] // a later append moves what is left to a new array
	b.mu.Unlock()
	signal(b.gone)
}

// torn reports whether the last byte that was dropped is inside a line, as far
// as anybody knows: the end of the input ends its last line.
func (b *backlog) torn() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.inside && !(b.ended && len(b.data) == 0)
}

// rest takes out everything that was not released.
func (b *backlog) rest() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	rest := b.data
	b.data, b.breaks = nil, 0
	return rest
}

// waiting counts the lines that have been read and not released.
func (b *backlog) waiting() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.inside && b.breaks > 0 {
		return b.whole() - 1
	}
	return b.whole()
}

var newline = []byte{'\n'}

// signal leaves one token in c; one is enough, because the receiver looks at the state itself.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
