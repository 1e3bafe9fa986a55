package record

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/internal/chance"
	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/node"
)

const (
	// failPause is for how long calls do not ask again after that failed. It goes on in the
	// background.
	failPause = 500 * time.Millisecond
	// failedFor is for how long calls that can go on without do so after that failed.
	failedFor = 3 * time.Second
)

// ErrBusy tells that most of a call's time went by while others of this process were asking. That
// tells nothing of Redis.
var ErrBusy = errors.New("this process is busy with the records")

// Belief is what a process read of something that others may change. It relies on that for
// node.Relied from when it began to read, as long as it works with the same. It is safe for
// concurrent use.
type Belief struct {
	nodes  *node.Fleet
	every  time.Duration // how often it is read in the background while it is in use
	number func() int64  // of what the process works with; 0: of nothing
	// ask reads it, and has it learned; by who holds the token. If it is whole, it does what takes
	// longer, too.
	ask  func(ctx context.Context, whole bool) error
	soon func(context.Context) error // asks for the whole in the background

	read    atomic.Pointer[confirmed]     // nil: it never was
	learned atomic.Pointer[chan struct{}] // closed when something is learned
	failed  atomic.Pointer[failure]       // nil: the last try did not
	asking  atomic.Bool                   // in the background
	again   atomic.Bool                   // somebody wants it since that began
	askedAt atomic.Int64                  // when that began last, as time elapsed; 0: never
	token   chan struct{}                 // holds one token: one exchange at a time
}

// confirmed is what was read: its number, and when that read began.
type confirmed struct {
	number int64
	began  clock.Elapsed
}

// failure is why, and when, something could not be read.
type failure struct {
	at  clock.Elapsed
	err error
}

func (b *Belief) init() {
	b.token = make(chan struct{}, 1)
	b.learned.Store(news())
}

// news returns a channel that is closed when something is learned.
func news() *chan struct{} {
	c := make(chan struct{})
	return &c
}

// Begin waits until no other exchange is under way, at most until ctx ends.
func (b *Belief) Begin(ctx context.Context) error {
	select {
	case b.token <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrBusy, clock.Ended(ctx))
	}
}

// End ends an exchange.
func (b *Belief) End() { <-b.token }

// Learn notes that what has this number was read, or written, by what began at that time elapsed.
func (b *Belief) Learn(number int64, began clock.Elapsed) {
	b.read.Store(&confirmed{number, began})
	b.failed.Store(nil)
	b.askedAt.CompareAndSwap(0, int64(began))
	close(*b.learned.Swap(news()))
}

// Doubt has everything counted as read too long ago. It is for tests.
func (b *Belief) Doubt() {
	b.read.Store(nil)
	b.askedAt.Store(0)
}

// Until returns until when what has this number may be relied on, as time elapsed; 0: it may not.
func (b *Belief) Until(number int64, elapsed clock.Elapsed) clock.Elapsed {
	read := b.read.Load()
	if read == nil || read.number == 0 || read.number != number || elapsed < read.began ||
		elapsed >= read.began+clock.Elapsed(node.Relied) {
		return 0
	}
	return read.began + clock.Elapsed(node.Relied)
}

// Expired tells that something was read too long ago to rely on it. It is false where nothing ever
// was: then there is nothing to rely on. So it is for a while after it could not be read: calls
// would go on without it all the same.
func (b *Belief) Expired(elapsed clock.Elapsed) bool {
	read, failed := b.read.Load(), b.failed.Load()
	return read != nil && elapsed >= read.began+clock.Elapsed(node.Relied) &&
		(failed == nil || elapsed-failed.at >= clock.Elapsed(failedFor))
}

// Failure returns why it could not be read; nil: the last try did not fail, or there was none.
func (b *Belief) Failure() error {
	if failed := b.failed.Load(); failed != nil {
		return failed.err
	}
	return nil
}

// ConfirmSince makes sure that what the process works with may be relied on, by a read that began
// at that time elapsed or later. It waits at most until ctx ends.
func (b *Belief) ConfirmSince(ctx context.Context, since clock.Elapsed) error {
	elapsed := b.nodes.Clock.Elapsed
	for began, has := elapsed(), false; ; {
		learned := *b.learned.Load()
		now := elapsed()
		if until := b.Until(b.number(), now); until != 0 && until-clock.Elapsed(node.Relied) >= since {
			return nil
		}
		if failed := b.failed.Load(); failed != nil && now-failed.at < clock.Elapsed(failPause) {
			return failed.err
		}
		if until, ok := ctx.Deadline(); has && ok && time.Duration(now-began) > time.Until(until) {
			return ErrBusy // what is left would end a read that is answered
		}
		if has {
			return b.Exchange(ctx, false)
		}
		select {
		case b.token <- struct{}{}:
			defer b.End()
			has = true
		case <-learned: // by who has the token
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrBusy, clock.Ended(ctx))
		}
	}
}

// ConfirmWithin is that for any read, and for a call that goes on without after half of its time.
func (b *Belief) ConfirmWithin(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, b.nodes.CallTimeout/2)
	defer cancel()
	return b.ConfirmSince(ctx, 0)
}

// Ask reads it now.
func (b *Belief) Ask(ctx context.Context, whole bool) error {
	if err := b.Begin(ctx); err != nil {
		return err
	}
	defer b.End()
	return b.Exchange(ctx, whole)
}

// Exchange is Ask for who holds the token. A failure is noted, unless the caller had little time.
func (b *Belief) Exchange(ctx context.Context, whole bool) error {
	began := b.nodes.Clock.Elapsed()
	within, cancel := context.WithTimeout(ctx, b.nodes.Patience())
	defer cancel()
	err := b.ask(within, whole)
	now, long := b.nodes.Clock.Elapsed(), clock.Elapsed(b.nodes.CallTimeout/3)
	if err != nil && (ctx.Err() == nil || now-began >= long) {
		if b.failed.Store(&failure{now, err}); !whole { // else it goes on all the same
			b.Soon()
		}
	}
	return err
}

// Refresh has it read again in the background in good time.
func (b *Belief) Refresh() { b.RefreshAt(b.nodes.Clock.Elapsed()) }

// RefreshAt does so at this time elapsed.
func (b *Belief) RefreshAt(elapsed clock.Elapsed) {
	if at := b.askedAt.Load(); at == 0 || int64(elapsed)-at >= int64(b.every) {
		b.Soon()
	}
}

// Soon has it read in the background, again and again until that succeeds.
func (b *Belief) Soon() {
	if b.again.Store(true); !b.asking.CompareAndSwap(false, true) {
		return
	}
	if !b.nodes.Spawn(b.askOn) {
		b.asking.Store(false)
	}
}

func (b *Belief) askOn(ctx context.Context) {
	defer func() {
		if b.asking.Store(false); b.again.Load() && ctx.Err() == nil {
			b.Soon() // that was wanted at the last moment
		}
	}()
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		b.askedAt.Store(int64(b.nodes.Clock.Elapsed())) // else who goes on with what was read would want it again, for ever
		// The spread keeps processes that lost the same node from asking in step.
		if b.again.Store(false); b.soon(ctx) != nil {
			if !clock.Sleep(ctx, pause+chance.N(pause)) {
				return
			}
		} else if !b.again.Load() {
			return
		}
	}
}

// Watch is a record that a process works with, and what it believes of it.
type Watch struct {
	Belief
	*Record
	to Watched
}

// Watched is what a process does with a record. Only who holds the token calls it.
type Watched struct {
	Every        time.Duration // how often it is read in the background while it is in use
	Participates bool          // who reads it is counted
	Number       func() int64  // of the value that the process works with; 0: none
	Begins       func() error  // is called before a read
	// Heard takes in a value that a majority has, and learns it; began is when the read or change
	// began that found it, as time elapsed. It is ErrUnsettled if another value is to follow.
	Heard func(ctx context.Context, got Reading, began clock.Elapsed) error
	// Next returns what makes the value with which the record is to go on.
	Next func(ctx context.Context) (func(found Reading) (string, error), error)
	// Soon reads the record in the background, and does what else is to be done then.
	Soon func(ctx context.Context) error
}

// restoreEvery is how often on average a process restores a place that forgot the record, where it
// reads more often than that: one of the processes is enough.
const restoreEvery = 5 * time.Second

// Watch returns a record of which nothing is known yet.
func (r *Record) Watch(to Watched) *Watch {
	w := &Watch{Record: r, to: to}
	w.Belief = Belief{nodes: r.book.nodes, every: to.Every, number: to.Number, soon: to.Soon,
		ask: w.exchange}
	w.init()
	return w
}

// exchange reads the record, and learns, completes or begins what it finds. The caller holds the
// token. A whole exchange waits for each place, so that one that forgot is restored, and lends the
// token meanwhile.
func (w *Watch) exchange(ctx context.Context, whole bool) error {
	if err := w.to.Begins(); err != nil {
		return err
	}
	began, lent := w.book.nodes.Clock.Elapsed(), false
	err := w.Read(ctx, w.to.Participates, whole, func(got Reading) error {
		if lent {
			return nil // what a second look finds is not ours to learn
		}
		err := w.to.Heard(ctx, got, began)
		if lent = err == nil && whole; lent {
			w.End()
		}
		return err
	})
	if lent {
		w.token <- struct{}{}
		if err := w.to.Begins(); err != nil { // the record may have been deleted meanwhile
			return err
		}
	}
	if errors.Is(err, ErrBlank) && chance.N(restoreEvery) > w.every {
		return nil
	}
	if errors.Is(err, ErrUnsettled) {
		var next func(Reading) (string, error)
		if next, err = w.to.Next(ctx); err == nil {
			_, err = w.Change(ctx, next)
		}
	}
	return err
}

// Change has the record be what next makes of what it found, and that learned. It belongs to who
// holds the token.
func (w *Watch) Change(ctx context.Context, next func(Reading) (string, error)) (Reading, error) {
	began := w.book.nodes.Clock.Elapsed()
	got, err := w.Record.Change(ctx, next)
	if err == nil {
		err = w.to.Heard(ctx, got, began)
	}
	return got, err
}
