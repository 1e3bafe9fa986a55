package register

import (
	"context"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit/internal/clock"
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

// lastsUnder is how long what was granted under a limit of a layout may matter: while it is in
// the window, up to which it may have been reserved or held, and until a bucket that it emptied is
// full.
func lastsUnder(s shard.Spec, under *shard.Fence, family bool) time.Duration {
	if !booksAhead(under) {
		return lastsUnreserved(s)
	}
	windows := BookedAhead + 1.0
	if s.Algorithm == FixedWindow {
		windows = 9 // one may be reserved seven windows ahead
	}
	if s.Burst > s.Permits {
		windows += filling(s)
	}
	lasts := time.Duration(windows*float64(s.Window)) + s.Lease
	ahead := Ahead(s, under != nil, family)
	if ahead == 0 {
		return lasts
	}
	return max(lasts, ahead+time.Duration(max(filling(s), 1)*float64(s.Window)))
}

// lastsUnreserved is that while nobody reserves permits ahead. What a LeakyBucket grants has its
// turn when the queue before it is empty. Clocks of nodes differ, so the windows of FixedWindow do.
func lastsUnreserved(s shard.Spec) time.Duration {
	windows := 1.0
	switch {
	case s.Algorithm == FixedWindow:
		windows = 2
	case s.Algorithm == LeakyBucket || s.Burst > s.Permits:
		windows += filling(s)
	}
	return time.Duration(windows*float64(s.Window)) + s.Lease
}

// booksAhead reports whether permits may be reserved ahead under a layout with this fence, or with
// none.
func booksAhead(under *shard.Fence) bool { return under == nil || under.Ahead }

// assumeAhead is a layout that goes on although a later one was forgotten: that one may have said
// that permits may be reserved ahead.
func assumeAhead(l shard.Layout, family bool) shard.Layout {
	if l.Fence == nil {
		return l
	}
	under := *l.Fence
	under.Ahead = true
	under.Lasts = max(under.Lasts, min(lastsUnder(l.Spec(), &under, family), shard.MaxLasts))
	l.Fence = &under
	return l
}

// announcements is whether the limit's layout is being made to say that permits may be reserved
// ahead.
type announcements struct {
	sync.Mutex
	now      *announcement // that is under way, or nil
	failedAt int64         // when the last one failed, as time elapsed; 0: it did not
	err      error         // then
}

type announcement struct {
	done chan struct{} // closed when err is set
	err  error
}

// BookAhead has the limit's layout say that permits may be reserved ahead, unless it does. A
// takeover waits longer from then on. It takes a few calls to Redis, once in the life of a limit.
// They go on if ctx ends before. After they failed, others fail at once for a while.
func (r *Register) BookAhead(ctx context.Context) error {
	a, err := r.announce()
	if a == nil {
		return err
	}
	select {
	case <-a.done:
		return a.err
	case <-ctx.Done():
		return clock.Ended(ctx)
	}
}

// announce begins that in the background, or returns what is under way; nil if nothing is to be
// done, or if that would fail.
func (r *Register) announce() (*announcement, error) {
	all := &r.announcing
	all.Lock()
	defer all.Unlock()
	if t := r.Limit.Layout(); t != nil && booksAhead(t.Fence) {
		return nil, nil
	}
	if all.now != nil {
		return all.now, nil
	}
	if all.failedAt != 0 && r.elapsed()-all.failedAt < int64(confirmPause) {
		return nil, all.err
	}
	a := &announcement{done: make(chan struct{})}
	if !r.env.Nodes.Spawn(func(ctx context.Context) { r.announceAs(ctx, a) }) {
		return nil, ErrClosed
	}
	all.now = a
	return a, nil
}

func (r *Register) announceAs(ctx context.Context, a *announcement) {
	ctx, cancel := context.WithTimeout(ctx, r.env.Patience())
	defer cancel()
	a.err = r.sayAhead(ctx)
	all := &r.announcing
	all.Lock()
	defer all.Unlock()
	all.now, all.failedAt = nil, 0
	if a.err != nil {
		all.failedAt, all.err = r.elapsed(), a.err
	}
	close(a.done)
}

// sayAhead stores the layout once more, with the mark. On the shards that are leaving nothing was
// reserved, so that Lasts stays what it is for them, unless a later layout was forgotten. Keys of a
// family wait longer from now on.
func (r *Register) sayAhead(ctx context.Context) error {
	next, err := r.succeed(ctx, func(old shard.Layout) (*shard.Layout, error) {
		if booksAhead(old.Fence) {
			return nil, nil
		}
		under := *old.Fence
		if r.highest.Load() > old.Epoch {
			under = *assumeAhead(old, r.Family).Fence
		}
		under.Ahead = true
		next, err := r.known(old).Under(&under).Renumber(r.nextEpoch(old))
		return &next, err
	})
	if err == nil && next != nil && !next.Settled {
		r.driveOn(true)
	}
	return err
}
