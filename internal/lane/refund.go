package lane

import (
	"context"
	"slices"
	"sync"
)

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
