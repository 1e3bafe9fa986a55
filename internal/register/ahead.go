package register

import (
	"time"

	"github.com/shardlimit/shardlimit/shard"
)

const (
	// BookedAhead is for how many windows' worth of permits shards may be booked at the most, and
	// for how many bursts a bucket always may be.
	BookedAhead = 2
	// farAhead is how far ahead a bucket may be booked.
	farAhead = time.Hour
	// keyAhead and keyWindows are how far ahead that of a key may be, whichever is less: as long
	// the record of its family has to remember where keys were.
	keyAhead   = time.Minute
	keyWindows = 64
)

// Ahead is how far ahead of now permits of a limit may be reserved at the most, where it is not
// said in windows: 0 if its algorithm is no bucket. What a bucket has booked ahead is a debt, so it
// takes no more memory the farther it reaches. But whatever is booked keeps its share where it is.
// So a takeover has to wait for it: where the layout is fenced, it is no more than two bursts.
func Ahead(s shard.Spec, fenced, family bool) time.Duration {
	if s.Algorithm != TokenBucket && s.Algorithm != LeakyBucket {
		return 0
	}
	ahead := farAhead
	switch {
	case fenced:
		ahead = 0
	case family:
		ahead = min(keyAhead, keyWindows*s.Window)
	}
	return max(ahead, time.Duration(BookedAhead*filling(s)*float64(s.Window)))
}

// filling is in how many windows an empty bucket is full, or a full queue empty.
func filling(s shard.Spec) float64 {
	if s.Burst == 0 {
		return 1
	}
	return float64(s.Burst) / float64(s.Permits)
}

// lastsUnder is how long what was granted under a limit may matter: while it is in the window,
// up to which it may have been reserved or held, and until a bucket that it emptied is full.
// ahead is what Ahead says of the limit.
func lastsUnder(s shard.Spec, ahead time.Duration) time.Duration {
	windows := BookedAhead + 1.0
	if s.Algorithm == FixedWindow {
		windows = 9 // one may be reserved seven windows ahead
	}
	if s.Burst > s.Permits {
		windows += filling(s)
	}
	lasts := time.Duration(windows*float64(s.Window)) + s.Lease
	if ahead == 0 {
		return lasts
	}
	return max(lasts, ahead+time.Duration(max(filling(s), 1)*float64(s.Window)))
}
