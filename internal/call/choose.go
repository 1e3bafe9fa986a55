package call

import (
	"time"

	"github.com/shardlimit/shardlimit/internal/chance"
	"github.com/shardlimit/shardlimit/internal/limit"
)

// How a process spreads its calls while shards have room. Under load it uses the
// first few of its order, so that calls meet in batches. A call that finds these
// almost idle has nobody to meet: it goes to one that changes from time to time, so that in the
// long run every shard gets as much. A process goes round so many shards that
// each has enough participants for chance to even them out (with 250 the busiest of
// 64 shards gets about a sixth more than the mean), and no more, so that a node
// serves a bounded number of processes however many shards there are.
const (
	preferred = 2   // shards under load
	crowd     = 250 // participants that go round to a shard
	rotation  = 16 * time.Millisecond
)

// tried marks the shards that a call is done with, by their place in Routes.Order; nil: none. An
// order has no more.
type tried [limit.MaxShards / 64]uint64

func (t *tried) add(i int) { t[i/64] |= 1 << (i % 64) }

func (t *tried) has(i int) bool { return t != nil && t[i/64]&(1<<(i%64)) != 0 }

// choose picks the next shard for a call: of the first few in the participant's
// order, the one with the fewest calls waiting; if these are almost idle, one
// that the rotation has come to. Once one of the first has nothing for it, it picks among all
// that may have, so that demand that spills spreads evenly. size is the least share that is of use.
// It returns -1 when there is none left.
func (v *view) choose(now int64, size int64, done *tried) int {
	if len(v.accounts) == 1 { // how busy it is does not matter
		if v.open(0, now, size, done) {
			return 0
		}
		return -1
	}
	best, seen, ties := -1, 0, uint64(0)
	var least, all int64
	spills := false
	for i := range v.accounts {
		if !v.open(i, now, size, done) {
			spills = spills || seen < preferred
			continue
		}
		waiting := v.accounts[i].Shard.Unanswered.Load()
		switch {
		case best < 0 || waiting < least:
			best, least, ties = i, waiting, 1
		case spills && waiting == least:
			if ties++; chance.N(ties) == 0 {
				best = i
			}
		}
		all += waiting
		if seen++; seen == preferred && !spills {
			break
		}
	}
	if best < 0 || spills || seen < preferred || all >= preferred {
		return best
	}
	for k := range int64(preferred) {
		i := rotated(v.Routes, now, k)
		if v.open(i, now, size, done) && v.accounts[i].Shard.Unanswered.Load() == 0 {
			return i
		}
	}
	return best
}

// open reports whether a call may go to the shard at this place of the order.
func (v *view) open(i int, now, size int64, done *tried) bool {
	acc := v.accounts[i]
	return !done.has(i) && !acc.Shut(now) && acc.Shard.Most() >= size && acc.Shard.Usable()
}

// rotated returns the place in the order of the shard that the rotation has come to, or comes to k
// steps later.
func rotated(r *limit.Routes, now, k int64) int {
	shards := int64(len(r.Order))
	reach := (crowd*shards-1)/max(r.Record.Participants.Load(), 1) + 1
	return int((now/int64(rotation) + k) % min(max(reach, preferred), shards))
}
