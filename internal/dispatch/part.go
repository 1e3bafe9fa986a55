package dispatch

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/script"
)

// Part is what one shard granted.
type Part struct {
	Account *Account         // where, and of whom
	At      clock.ServerTime // the shard's own time of the grant
	N       int64
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
				earlier := time.Duration(p.Last - piece.Last)
				piece.At -= clock.ServerTime(earlier.Round(time.Microsecond) / time.Microsecond)
			}
			cut = append(cut, piece)
		}
		place -= p.N
	}
	return cut
}

// Settlement is what one shard is to give back, or to charge.
type Settlement struct {
	Account *Account // of whom it is
	script.SettleRequest
	Unpaid bool // the participant's credit stays as it is
}

// SettleAll settles with all shards at once. With one shard, what comes later goes first: a leaky
// bucket takes back only what was granted last.
func SettleAll(ctx context.Context, all []Settlement) (replies []script.SettleReply, errs []error) {
	replies, errs = make([]script.SettleReply, len(all)), make([]error, len(all))
	byAccount := make(map[*Account][]int)
	for i, s := range all {
		byAccount[s.Account] = append(byAccount[s.Account], i)
	}
	var wg sync.WaitGroup
	for first, s := range all {
		acc, places := s.Account, byAccount[s.Account]
		if places[0] != first {
			continue
		}
		wg.Go(func() {
			for _, i := range slices.Backward(places) {
				r := all[i].SettleRequest
				if !all[i].Unpaid {
					r.Caller = acc.name()
				}
				replies[i], errs[i] = acc.Settle(ctx, r)
			}
		})
	}
	wg.Wait()
	return replies, errs
}
