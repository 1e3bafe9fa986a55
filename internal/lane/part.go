package lane

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"
)

// Part is what one shard granted.
type Part struct {
	Seat *Seat // where, and of whom
	At   int64 // the shard's own time of the grant, microseconds
	N    int64
	From int64 // since when the participant holds them, on the process' clock
	// First and Last are when the first and the last of several turns come, on the process' clock;
	// 0: all may be used at once.
	First, Last int64
}

// turn returns when the permit at a place comes: turns are evenly spaced.
func (p *Part) turn(place int64) int64 {
	if place == p.N-1 {
		return p.Last
	}
	return p.First + int64(math.Ceil(float64(p.Last-p.First)*(float64(place)/float64(p.N-1))))
}

// Cut returns n of the permits of parts, from a place in their order on: those that there are.
func Cut(parts []Part, place, n int64) (cut []Part) {
	for _, p := range parts {
		if from, to := max(place, 0), min(place+n, p.N); from < to {
			piece := p
			piece.N = to - from
			if p.Last != 0 {
				piece.First, piece.Last = p.turn(from), p.turn(to-1)
				piece.At -= int64(time.Duration(p.Last-piece.Last).Round(time.Microsecond) / time.Microsecond)
			}
			cut = append(cut, piece)
		}
		place -= p.N
	}
	return cut
}

// Join appends parts to others. Those in a row that one shard granted at one time become one part,
// so that they go back together.
func Join(parts []Part, more ...Part) []Part {
	for _, next := range more {
		if k := len(parts) - 1; k >= 0 && parts[k].Seat == next.Seat && parts[k].At == next.At {
			parts[k].N += next.N
		} else {
			parts = append(parts, next)
		}
	}
	return parts
}

// Returned is how the return of one part ended.
type Returned struct {
	Unsent bool // the command surely was not executed
	Err    error
}

// RefundAll gives back parts of what shards granted, all shards at once. Of parts of one shard the
// newer goes first: a bucket takes back only what was granted last. A node whose breaker is open is
// not asked.
func RefundAll(ctx context.Context, parts []Part, due int64) []Returned {
	all := make([]Returned, len(parts))
	newest := func(s *Seat, before int) int { // its place
		for before--; before >= 0 && parts[before].Seat != s; before-- {
		}
		return before
	}
	var wg sync.WaitGroup
	for i, p := range parts {
		if slices.ContainsFunc(parts[i+1:], func(later Part) bool { return later.Seat == p.Seat }) {
			continue
		}
		back := func() {
			for k := i; k >= 0; k = newest(p.Seat, k) {
				all[k].Unsent, all[k].Err = p.Seat.Refund(ctx, parts[k], due)
			}
		}
		if i == len(parts)-1 {
			back()
		} else {
			wg.Go(back)
		}
	}
	wg.Wait()
	return all
}
