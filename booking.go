package shardlimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit/internal/forecast"
	"github.com/shardlimit/shardlimit/internal/lane"
	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/internal/register"
	"github.com/shardlimit/shardlimit/script"
)

const (
	// bookAttempts is how often a booking looks for other shards after one has failed.
	bookAttempts = 3
	// bookRounds is how often parts of a booking are moved so that all are due together.
	bookRounds = 5
)

// booked is a part of a booking.
type booked struct {
	lane.Part
	early int64 // it is dated no earlier than this
	due   int64 // and no later than this
}

// bookCall is a call that books permits.
type bookCall struct {
	n        int64         // permits
	at       int64         // the earliest instant for which to book them
	deadline int64         // the latest one; 0: none
	since    int64         // when the call began
	ahead    time.Duration // how far ahead of now shards may be booked
	windows  int64         // for how many windows' worth of permits shards may be booked; 0: any
}

// mostAhead is how far ahead permits of a bucket may be booked; 0: it is none, or not known.
func (c *core) mostAhead(r *routes) time.Duration {
	if r == nil {
		return 0
	}
	return register.Ahead(r.layout.Spec(), r.layout.Fence != nil, c.family != nil)
}

// book reserves permits at the earliest instant at which there is room for them: on one shard if
// one has so many, else on several. While participants contend, credit has to pay for them until
// then, else the error is a *pacedError.
func (m *member) book(ctx context.Context, r *routes, call bookCall) (Decision, int64, error) {
	c := m.core
	r, err := c.certain(ctx, r, call.since)
	switch {
	case errors.Is(err, lane.ErrTooLate):
		return Decision{}, 0, c.noBooking(ctx, r, err, nil)
	case err != nil:
		return Decision{}, 0, c.noBooking(ctx, r, node.ErrAway, err)
	}
	if call.ahead = c.mostAhead(r); call.ahead == 0 {
		call.ahead = 2 * MaxWindow
	}
	var failure error
	failed := make(map[*lane.Lane]bool)
	for range bookAttempts {
		if failure == nil && c.client.now()-call.since > c.client.lanes.Boarding() {
			return Decision{}, 0, c.noBooking(ctx, r, lane.ErrTooLate, nil)
		}
		at, choices, err := m.plan(ctx, r, call, failed)
		if err != nil {
			return Decision{}, 0, c.noBooking(ctx, r, err, failure)
		}
		planned := call
		planned.at = max(at, call.at)
		parts, err := c.bookFirst(ctx, choices, planned)
		if err == nil {
			d, due := c.booking(r, parts)
			return d, due, nil
		}
		if paced := (*pacedError)(nil); errors.As(err, &paced) {
			now := c.client.now()
			if _, until := solvent(m.view(r).visit, call.n, max(planned.at, now), now); until != 0 {
				paced.until = until // of all shards, not of the last that was asked
			}
		}
		var dead *partError
		if !errors.As(err, &dead) {
			return Decision{}, 0, c.noBooking(ctx, r, err, failure)
		}
		failed[dead.seat.Lane] = true
		failure = dead
	}
	return Decision{}, 0, c.noBooking(ctx, r, node.ErrAway, failure)
}

// certain has the layout confirmed under which permits are reserved, and has it say that they are,
// if lost nodes are taken over. since is when the call began.
func (c *core) certain(ctx context.Context, r *routes, since int64) (latest *routes, err error) {
	if r == nil {
		return nil, nil
	}
	r, err = c.confirmed(ctx, r, since)
	if err != nil || r.layout.Fence == nil || r.layout.Fence.Ahead {
		return r, err
	}
	most := c.half(since)
	if most <= 0 {
		return r, lane.ErrTooLate
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	err = c.record().BookAhead(ctx)
	r = c.latest(r)
	if f := r.layout.Fence; err == nil && f != nil && !f.Ahead {
		err = node.ErrAway // it was switched meanwhile
	}
	return r, err
}

// confirmed has the layout confirmed by which a shard is told how far ahead permits may be dated,
// if lost nodes are taken over. A process that rested does not know that an earlier limit was
// replaced, and a takeover would not wait for what that allows.
func (c *core) confirmed(ctx context.Context, r *routes, since int64) (latest *routes, err error) {
	if r.layout.Fence == nil || c.Confirmed(r.layout.Epoch, c.client.clock.Elapsed()) != 0 {
		return r, nil
	}
	most := c.half(since)
	if most <= 0 {
		return r, lane.ErrTooLate
	}
	err = c.ConfirmWithin(ctx, most)
	return c.latest(r), err
}

// half is for how long what goes before a booking may take: half of a call, or what is left of it.
func (c *core) half(since int64) time.Duration {
	all := c.client.cfg.CallTimeout
	return min(all/2, all-time.Duration(c.client.now()-since))
}

// latest are the routes of the latest layout, or r if there are none.
func (c *core) latest(r *routes) *routes {
	if latest := c.current(); latest != nil {
		return latest
	}
	return r
}

// bookFirst books the first choice that the participant's credit can pay for. What it cannot pay
// for is remembered.
func (c *core) bookFirst(ctx context.Context, choices [][]lane.Part, call bookCall) (parts []booked, err error) {
	for _, wanted := range choices {
		var paced *pacedError
		if parts, err = c.bookParts(ctx, wanted, call); !errors.As(err, &paced) {
			return parts, err
		}
		if len(wanted) == 1 {
			wanted[0].Seat.Owe(wanted[0].N, paced.until, c.client.now())
		}
	}
	return nil, err
}

// partError tells which shard could not be booked, so that the others are tried.
type partError struct {
	seat *lane.Seat
	error
}

func (e *partError) Unwrap() error { return e.error }

// noBooking is why there is none: a refusal, the end of the caller, or that shards are away.
func (c *core) noBooking(ctx context.Context, r *routes, err, failure error) error {
	if e := c.gone(ctx, err); e != nil {
		return e
	}
	if errors.Is(err, lane.ErrTooLate) {
		return fmt.Errorf("%w: other calls of this process took its time", ErrTooManyReservations)
	}
	if paced := (*pacedError)(nil); isRefusal(err) || errors.As(err, &paced) {
		return err
	}
	if failure == nil {
		failure = r.absence(c.client.now())
	}
	return &awayError{failure}
}

// awayError is why no shard could be booked; the outage policy decides. It may hold nil.
type awayError struct{ cause error }

func (e *awayError) Error() string { return fmt.Sprint("no shard could be booked: ", e.cause) }

func isRefusal(err error) bool {
	return errors.Is(err, ErrTooManyReservations) || errors.Is(err, ErrWaitTooLong) || errors.Is(err, ErrLimitClosed)
}

// pacedError is that the participant has used up its part, so that it cannot pay for a booking
// before that time.
type pacedError struct{ until int64 }

func (e *pacedError) Error() string { return "its part of the limit is used up" }

// fullError is that so much is booked on a shard that there may be room for a booking only from
// that time on.
type fullError struct{ booked, until int64 }

func (e *fullError) Error() string {
	return fmt.Sprintf("%v: %d permits are reserved on a shard", ErrTooManyReservations, e.booked)
}

func (e *fullError) Unwrap() error { return ErrTooManyReservations }

// plan looks at the shards and chooses which to book, the best choice first, and the instant to
// book for: of one shard 0, because it knows better itself. Of several shards there is one choice.
func (m *member) plan(ctx context.Context, r *routes, call bookCall,
	failed map[*lane.Lane]bool) (at int64, choices [][]lane.Part, err error) {
	c, n, visit := m.core, call.n, m.view(r).visit
	if len(visit) == 1 && !r.split {
		if s := visit[0]; failed[s.Lane] || !s.Lane.Usable(c.client.now()) {
			return 0, nil, node.ErrAway
		}
		return 0, [][]lane.Part{{{Seat: visit[0], N: n}}}, nil
	}
	began := c.client.now()
	able, until := solvent(visit, n, max(call.at, began), began)
	offers, asked := c.offers(ctx, able, call.since, failed)
	if len(offers) == 0 && until == 0 {
		if c.client.lanes.Hurried(c.client.cfg.CallTimeout - time.Duration(began-call.since)) {
			return 0, nil, lane.ErrTooLate
		}
		return 0, nil, node.ErrAway
	}
	at, parts := forecast.Choices(offers, n)
	switch {
	case until != 0 && (parts == nil || len(parts[0]) > 1):
		// A participant that owes at one shard has used up its part. A split over others would cost
		// credit at each of them, and in vain if one refuses. By then that shard has what is
		// wanted; it counts as owed for a quarter of a window at most, see lane.Seat.Owe.
		return 0, nil, &pacedError{until}
	case parts == nil:
		return 0, nil, fmt.Errorf("%w: the shards that answer never have %d permits together", ErrWaitTooLong, n)
	case len(parts[0]) > 1:
		// Others take permits between the look and the booking: as many as come back meanwhile.
		now := c.client.now()
		at = max(at, now) + 2*(now-began) + int64(time.Millisecond)
	}
	for _, choice := range parts {
		var wanted []lane.Part
		for _, p := range choice {
			wanted = append(wanted, lane.Part{Seat: asked[p.Offer], N: p.Permits})
		}
		choices = append(choices, wanted)
	}
	return at, choices, nil
}

// solvent leaves out the shards that have n permits, but whose credit is known not to pay for them
// at an instant. until is when that of the first of them will; 0: there are none.
func solvent(seats []*lane.Seat, n, at, now int64) (able []*lane.Seat, until int64) {
	for _, s := range seats {
		switch pays, owes := s.Owes(n, at, now); {
		case !owes:
			able = append(able, s)
		case s.Lane.Usable(now) && (until == 0 || pays < until):
			until = pays
		}
	}
	return able, until
}

// offers asks every shard at once what it has, and returns that of those that answer.
func (c *core) offers(ctx context.Context, seats []*lane.Seat, since int64,
	failed map[*lane.Lane]bool) (offers []forecast.Offer, asked []*lane.Seat) {
	now := c.client.now()
	left := c.client.cfg.CallTimeout - time.Duration(now-since)
	var lanes []*lane.Lane
	for _, s := range seats {
		if !failed[s.Lane] && left > 0 && s.Lane.Usable(now) {
			lanes, asked = append(lanes, s.Lane), append(asked, s)
		}
	}
	answered := asked[:0]
	for i, found := range lane.Look(ctx, lanes, left/2) {
		if found.Err == nil {
			offers, answered = append(offers, offerOf(&found)), append(answered, asked[i])
		}
	}
	return offers, answered
}

// offerOf is what a shard has to give, on the client's clock.
func offerOf(found *lane.Sight) forecast.Offer {
	l := found.Lane
	o := forecast.Offer{Weight: l.Most()}
	o.Add(found.Spare, forecast.Releases(found.Behind(), found.Closed, found.Received, l.Room(&found.PeekReply)))
	if found.Status == script.Absent {
		o.Free = o.Weight
	} else if last := len(found.Releases); last > 0 && !l.Bursty {
		// a bucket has what comes back whatever is booked
		o.After = found.Received + int64(found.Releases[last-1].In-found.Window)
	}
	return o
}

// bookParts books every part for the instant of the call, or for a later one that suits all:
// a part that was dated earlier than the others would come back too early.
func (c *core) bookParts(ctx context.Context, wanted []lane.Part, call bookCall) ([]booked, error) {
	var done []booked
	for range bookRounds {
		more, err := c.bookAll(ctx, wanted, call)
		done = append(done, more...)
		if err != nil {
			c.unbook(ctx, done, call.since)
			return nil, err
		}
		latest := slices.MaxFunc(done, func(a, b booked) int { return cmp.Compare(a.early, b.early) }).early
		var early []booked
		done = slices.DeleteFunc(done, func(b booked) bool {
			if b.early < latest-int64(time.Microsecond) { // shards count whole microseconds
				early = append(early, b)
				return true
			}
			return false
		})
		if len(early) == 0 {
			return done, nil
		}
		c.unbook(ctx, early, call.since)
		wanted = wanted[:0]
		for _, b := range early {
			wanted = append(wanted, lane.Part{Seat: b.Seat, N: b.N})
		}
		call.at = latest
	}
	c.unbook(ctx, done, call.since)
	return nil, fmt.Errorf("%w: others book as fast", ErrTooManyReservations)
}

// bookAll books the parts at once, each for the instant of the call or as soon after it as there is
// room. If several cannot be booked, the error is the foremost.
func (c *core) bookAll(ctx context.Context, wanted []lane.Part, call bookCall) (done []booked, failure error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, w := range wanted {
		part := call
		part.n = w.N
		wg.Go(func() {
			b, err := c.bookPart(ctx, w.Seat, part)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failure = foremost(failure, err)
				return
			}
			done = append(done, b)
		})
	}
	wg.Wait()
	return done, failure
}

// foremost is which of two errors of a booking counts, whichever comes first: that a shard could
// not be booked, because then another choice of shards may do. So a refusal is not the end of the
// call before that was tried.
func foremost(a, b error) error {
	if dead := (*partError)(nil); a == nil || !errors.As(a, &dead) && errors.As(b, &dead) {
		return b
	}
	return a
}

// unbook gives parts of a booking back.
func (c *core) unbook(ctx context.Context, parts []booked, since int64) {
	var d Decision
	for _, b := range parts {
		d.addPart(b.Part, 0)
	}
	c.handBack(ctx, d, since)
}

// booking is the decision that stands for the parts, and when they are due.
func (c *core) booking(r *routes, parts []booked) (d Decision, due int64) {
	now := c.client.now()
	for _, b := range parts {
		d.addPart(b.Part, c.ownTicket())
		due = max(due, b.due)
	}
	c.complete(&d, r, r.expected(now), now)
	d.until += max(0, due-now)
	return d, due
}

// ownTicket identifies a decision that this process put together, apart from those of script calls.
func (c *core) ownTicket() uint64 { return c.rare().made.Add(1) | 1<<63 }

// bookPart reserves permits on the shard.
func (c *core) bookPart(ctx context.Context, s *lane.Seat, call bookCall) (booked, error) {
	now := c.client.now()
	left := c.client.cfg.CallTimeout - time.Duration(now-call.since)
	ctx, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	if err := call.refuses(time.Duration(call.at-now), now); err != nil {
		return booked{}, err
	}
	r, sent, received, err := s.Reserve(ctx, lane.Booking{
		Permits: call.n, From: call.at, Deadline: call.deadline, Windows: call.windows, Ahead: call.ahead})
	switch {
	case err != nil && c.client.lanes.Hurried(left) && errors.Is(err, context.DeadlineExceeded) &&
		!script.NotExecuted(err):
		return booked{}, lane.ErrTooLate
	case err != nil:
		return booked{}, &partError{s, s.Lane.Fail(err)}
	case r.Full:
		return booked{}, &fullError{r.Booked, received + int64(r.Again)}
	case r.Paced > 0:
		return booked{}, &pacedError{received + int64(r.Paced)}
	case r.Granted == 0 && r.Retry < 0:
		return booked{}, &partError{s, s.Lane.Fail(errShareTooSmall)}
	case r.Granted == 0:
		if err := call.refuses(r.Retry, now); err != nil {
			return booked{}, err
		}
		return booked{}, &lateError{r.Retry, fmt.Errorf("%w: the permits can come in %s", ErrWaitTooLong, r.Retry)}
	}
	part := lane.Part{Seat: s, At: r.At, N: call.n, From: sent}
	return booked{part, sent + int64(r.Delay), received + int64(r.Delay)}, nil
}

// refuses tells why permits that come after a delay are not booked, nil if they may be.
func (call *bookCall) refuses(delay time.Duration, now int64) error {
	switch {
	case call.deadline != 0 && max(int64(delay), 0) > max(call.deadline-now, 0):
		return &lateError{delay, fmt.Errorf("%w: the permits can come in %s", ErrWaitTooLong, delay)}
	case delay > call.ahead:
		return &lateError{delay, fmt.Errorf("%w: the permits can come in %s, farther ahead than %s",
			ErrTooManyReservations, delay, call.ahead)}
	}
	return nil
}

var errShareTooSmall = errors.New("its share is less than was asked for")
