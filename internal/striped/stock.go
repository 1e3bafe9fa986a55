package striped

import "sync/atomic"

const (
	// LeastStripe is how many permits a stripe of a stock begins with at the
	// least: a stock of less than twice as many is not divided.
	LeastStripe = 1024
	// tellEvery is after how many permits a stripe tells the others that they are gone; a power of
	// two.
	tellEvery = 64
	// soldOut is what is left of a stripe whose stock was closed: nobody gets any of it.
	soldOut = -1
)

// Stock is a number of permits that are handed out until none is left or the
// stock is closed. Each permit has a place, counted from 0. A large stock is
// divided into stripes, so that cores do not wait for each other; whoever finds
// nothing in one stripe gets it from another. Safe for concurrent use once it is filled.
type Stock struct {
	stripes []stripe
	rough   atomic.Int64 // permits left in a divided stock, of each stripe a multiple of tellEvery
}

// stripe is the permits of a stock at consecutive places, the last of which go
// first. A processor may fetch cache lines in pairs, so it takes two.
type stripe struct {
	left  atomic.Int64
	begin int64 // the first place
	_     [112]byte
}

// Pile is permits of a stock at consecutive places.
type Pile struct{ Place, N int64 }

// Fill puts the permits into a new stock, and divides it so that so many cores can take from it at
// once.
func (s *Stock) Fill(size int64, cores int) {
	count := int64(1)
	for count < int64(stripesFor(cores)) && size >= 2*count*LeastStripe {
		count *= 2
	}
	s.stripes = make([]stripe, count)
	end := size
	for i := count - 1; i >= 0; i-- {
		begin := size * i / count &^ (tellEvery - 1)
		s.stripes[i].begin = begin
		s.stripes[i].left.Store(end - begin)
		s.rough.Add((end - begin) &^ (tellEvery - 1))
		end = begin
	}
}

// Take takes n permits, n > 0, at consecutive places. It returns the first
// place, and how many permits are left: exactly, or in a divided stock up to tellEvery less for
// each stripe that others take from. ok is false if no stripe has n.
func (s *Stock) Take(n int64) (place, left int64, ok bool) {
	if len(s.stripes) == 1 {
		only := &s.stripes[0].left
		for had := only.Load(); had >= n; had = only.Load() {
			if only.CompareAndSwap(had, had-n) {
				return had - n, had - n, true
			}
		}
		return 0, 0, false
	}
	h := homes.Get().(*home)
	own := &s.stripes[int(*h)&(len(s.stripes)-1)]
	if had := own.left.Load(); had >= n && own.left.CompareAndSwap(had, had-n) {
		homes.Put(h)
		return own.begin + had - n, s.tell(had, had-n), true
	}
	return s.takeElsewhere(n, h)
}

// takeElsewhere is take for a caller who got nothing at home. Its core has a
// new home where it finds n permits, and meets no other core.
func (s *Stock) takeElsewhere(n int64, h *home) (place, left int64, ok bool) {
	last := len(s.stripes) - 1
	for met := true; met; {
		met = false
		for k := range s.stripes {
			i := int(*h)&last ^ (last - k) // begins far away: the next stripe is likely to be the home of another core
			own := &s.stripes[i]
			had := own.left.Load()
			if had < n {
				continue
			}
			if own.left.CompareAndSwap(had, had-n) {
				homes.Put(&everyHome[int(*h)&^last|i])
				return own.begin + had - n, s.tell(had, had-n), true
			}
			met = true
		}
	}
	homes.Put(h)
	return 0, 0, false
}

// tell notes that a stripe had so many permits and has fewer now, and returns how many the stock
// has.
func (s *Stock) tell(had, left int64) int64 {
	if gone := had&^(tellEvery-1) - left&^(tellEvery-1); gone > 0 {
		s.rough.Add(-gone)
	}
	return s.rough.Load() + left&(tellEvery-1)
}

// Sum is how many permits are left, 0 once the stock is closed.
func (s *Stock) Sum() (n int64) {
	for i := range s.stripes {
		n += max(s.stripes[i].left.Load(), 0)
	}
	return n
}

// Close ends the handing out, and returns what is left. first is false if the
// stock was closed before; then the first one who closed it has all that was left.
func (s *Stock) Close() (rest []Pile, first bool) {
	for i := range s.stripes {
		left := s.stripes[i].left.Swap(soldOut)
		if i == 0 && left == soldOut {
			return nil, false
		}
		if left > 0 {
			rest = append(rest, Pile{s.stripes[i].begin, left})
		}
	}
	return rest, true
}
