package call

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit/internal/dispatch"
	"github.com/shardlimit/shardlimit/internal/forecast"
	"github.com/shardlimit/shardlimit/internal/limit"
	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/script"
)

const (
	// bookRounds is how often parts of a booking are moved so that all are due together.
	bookRounds = 5
	// muchSooner divides a window: several shards are booked if they have the permits by that much
	// sooner than one. They cost more calls, but use what each has beside the bookings that fit.
	muchSooner = 4
)

// choice is what may be booked.
type choice struct {
	parts []dispatch.Part
	at    int64 // for when; 0: as soon as there is room
}

// booked is a part of a booking.
type booked struct {
	dispatch.Part
	early int64 // it is dated no earlier than this
	due   int64 // and no later than this
}

// Booking is a call that books permits.
type Booking struct {
	N        int64 // permits
	at       int64 // the earliest instant for which to book them
	Deadline int64 // the latest one; 0: none
	Since    int64 // when the call began
	view     *view
	answered bool  // a shard has answered a look
	until    int64 // when a choice must have been made
}

// Book reserves permits as soon as there is room for them: on one shard, or on several, all for one
// instant, if none can have so many or they have them much sooner.
func (m *Member) Book(ctx context.Context, r *limit.Routes, b Booking) (Decision, int64, error) {
	c := m.Target
	b.view = m.View(r)
	failure := cmp.Or(c.Absence(r), node.ErrAway)
	b.until = b.Since + int64(c.Process.Config.CallTimeout)
	choices, end := b.choices(ctx), b.until
	for i, wanted := range choices {
		b.at, b.until = wanted.at, end
		several := len(wanted.parts) > 1 && i+1 < len(choices)
		if several { // a shard alone needs time, too
			b.until -= int64(b.left(c.Process.Now()) / 2)
		}
		d, due, err := b.all(ctx, wanted.parts)
		if err == nil {
			return d, due, nil
		}
		if dead := (*partError)(nil); !several && (!errors.As(err, &dead) || IsRefusal(err)) {
			return Decision{}, 0, b.failed(ctx, err)
		}
		failure = err
	}
	switch {
	case c.Process.Dispatch.Hurried(b.left(c.Process.Now())), errors.Is(failure, dispatch.ErrOverloaded):
		failure = dispatch.ErrOverloaded
	case b.answered:
		failure = errTooFew
	case !errors.Is(failure, errTooFew):
		failure = &partError{failure}
	}
	return Decision{}, 0, b.failed(ctx, failure)
}

// left returns how much of its time the call has left.
func (b *Booking) left(now int64) time.Duration {
	return time.Duration(b.until - now)
}

// choices returns what may be booked, the best first: each shard that can have n permits by itself,
// the soonest first, and before them several shards if they have them much sooner. If none can,
// there is one choice, of several shards; none if all that answer have less.
func (b *Booking) choices(ctx context.Context) (choices []choice) {
	var accounts []*dispatch.Account
	var shards []*dispatch.Shard
	for _, acc := range b.view.accounts {
		if acc.Shard.Usable() {
			accounts, shards = append(accounts, acc), append(shards, acc.Shard)
		}
	}
	if len(accounts) == 1 && accounts[0].Shard.Most() >= b.N {
		return []choice{{parts: []dispatch.Part{{Account: accounts[0], N: b.N}}}} // the shard itself knows when
	}
	var offers []forecast.Offer
	var asked []*dispatch.Account
	var times []int64
	process := b.view.member.Target.Process
	began := process.Now()
	for i, found := range dispatch.Look(ctx, shards, b.left(began)/2) {
		if found.Err != nil {
			continue
		}
		b.answered = true
		o := offerOf(&found)
		offers, asked = append(offers, o), append(asked, accounts[i])
		if at, ok := o.Soonest(b.N); ok {
			k, _ := slices.BinarySearch(times, at+1) // behind those that have them as soon
			times = slices.Insert(times, k, at)
			choices = slices.Insert(choices, k, choice{parts: []dispatch.Part{{Account: accounts[i], N: b.N}}})
		}
	}
	parts, at := forecast.Split(offers, b.N)
	now := process.Now()
	at = max(at, now+now-began) // it takes as long to book them as it took to look
	if b.view.Limit.Algorithm == limit.LeakyBucket {
		at = 0 // its turns cannot be moved
	}
	if choices != nil && (at == 0 || times[0]-at <= int64(b.view.Limit.Per/muchSooner)) {
		return choices
	}
	var wanted []dispatch.Part
	for i, n := range parts {
		if n > 0 {
			wanted = append(wanted, dispatch.Part{Account: asked[i], N: n})
		}
	}
	if wanted != nil {
		choices = slices.Insert(choices, 0, choice{wanted, at})
	}
	return choices
}

// offerOf returns what a shard has to give, on the client's clock.
func offerOf(found *dispatch.Sight) forecast.Offer {
	sh := found.Shard
	o := forecast.Offer{Weight: sh.Most()}
	room := sh.Room(&found.PeekReply)
	if found.Closed == 0 {
		o.Free = max(0, room-found.Used)
	}
	o.Releases = forecast.Releases(o.Free, &found.PeekReply, found.Received, room)
	if found.Status == script.Absent {
		o.Free = o.Weight
	} else if last := len(found.Releases); last > 0 && !sh.Bursty {
		// a bucket has what comes back whatever is booked
		o.After = found.Received + int64(found.Releases[last-1].In-found.Window)
	}
	return o
}

// partError is why a shard could not be booked, so that the others are tried. If none could, the
// outage policy decides.
type partError struct{ error }

func (e *partError) Unwrap() error { return e.error }

// failed returns why there is no booking, which is the end of the caller if that has come.
func (b *Booking) failed(ctx context.Context, err error) error {
	if e := b.view.member.Target.Process.Gone(ctx, err); e != nil {
		return e
	}
	if errors.Is(err, dispatch.ErrOverloaded) {
		return fmt.Errorf("%w: %w", limit.ErrWaitTooLong, dispatch.ErrOverloaded)
	}
	return err
}

// IsRefusal reports whether an error of Reserve means that the permits are not to be had.
func IsRefusal(err error) bool {
	return errors.Is(err, limit.ErrTooFarAhead) || errors.Is(err, limit.ErrWaitTooLong) ||
		errors.Is(err, limit.ErrLimitClosed)
}

// all books every part for the instant of the call, or for a later one that suits all: a part that
// was dated earlier than the others would come back too early. It returns the decision that stands
// for the parts, and when they are due.
func (b *Booking) all(ctx context.Context, wanted []dispatch.Part) (Decision, int64, error) {
	c := b.view.member.Target
	for range bookRounds {
		began := c.Process.Now()
		if b.Deadline != 0 && b.at > b.Deadline {
			return Decision{}, 0, late(time.Duration(b.at-began), b.Deadline, began)
		}
		done, err := b.atOnce(ctx, wanted)
		var d Decision
		latest, due := b.at, b.at
		for _, p := range done {
			d.addPart(p.Part, c.OwnTicket())
			latest, due = max(latest, p.early), max(due, p.due)
		}
		if err == nil && (len(done) == 1 || latest <= b.at+int64(time.Microsecond)) { // shards count whole ones
			now := c.Process.Now()
			c.complete(&d, b.view.Routes, b.view.Expected(now), now)
			return d, due, nil
		}
		c.HandBack(ctx, d, b.Since, false)
		if err != nil {
			return Decision{}, 0, err
		}
		now := c.Process.Now()
		b.at = max(due, now+now-began) // the next round, too, takes its time
	}
	return Decision{}, 0, fmt.Errorf("%w: others book as fast", limit.ErrWaitTooLong)
}

// atOnce books the parts at once, each for the instant of the call or as soon after it as there is
// room.
func (b *Booking) atOnce(ctx context.Context, wanted []dispatch.Part) (done []booked, failure error) {
	all, errs := make([]booked, len(wanted)), make([]error, len(wanted))
	var wg sync.WaitGroup
	for i, w := range wanted {
		wg.Go(func() { all[i], errs[i] = b.part(ctx, w.Account, w.N) })
	}
	wg.Wait()
	for i, err := range errs {
		if err == nil {
			done = append(done, all[i])
		}
	}
	return done, errors.Join(errs...)
}

// OwnTicket identifies a decision that this process put together, apart from those of script calls.
func (c *Target) OwnTicket() uint64 { return c.rare().made.Add(1) | 1<<63 }

// part reserves permits on one shard.
func (b *Booking) part(ctx context.Context, acc *dispatch.Account, n int64) (booked, error) {
	c := b.view.member.Target
	now := c.Process.Now()
	left := b.left(now)
	ctx, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	r, sent, received, err := acc.Reserve(ctx, dispatch.ReserveAsk{Permits: n, From: b.at, Deadline: b.Deadline})
	switch {
	case err != nil && c.Process.Dispatch.Hurried(left) && errors.Is(err, context.DeadlineExceeded) &&
		!script.NotExecuted(err):
		return booked{}, dispatch.ErrOverloaded
	case err != nil:
		return booked{}, &partError{c.Failed(acc.Shard, err)}
	case r.Paced > 0:
		return booked{}, &limit.TooFarAheadError{Delay: r.Paced}
	case r.Granted == 0 && r.Retry < 0 && c.Family != nil: // another caller has brought another limit
		return booked{}, c.TooMany(n, r.Target)
	case r.Granted == 0 && r.Retry < 0:
		return booked{}, &partError{errTooFew}
	case r.Granted == 0:
		return booked{}, late(r.Retry, b.Deadline, now)
	}
	part := dispatch.Part{Account: acc, At: r.At, N: n}
	return booked{part, sent + int64(r.Delay), received + int64(r.Delay)}, nil
}

// late returns why permits that come after a delay are not booked: that is after the deadline, or
// too far ahead.
func late(delay time.Duration, deadline, now int64) error {
	if deadline != 0 && int64(delay) > deadline-now {
		return fmt.Errorf("%w: the permits can come in %s", limit.ErrWaitTooLong, delay)
	}
	return &limit.TooFarAheadError{Delay: delay}
}

// errTooFew is why there is no booking while a shard answers: that is no outage.
var errTooFew = errors.New("the shards that answer have less than was asked for")
