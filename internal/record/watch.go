package record

import (
	"context"
	"errors"
	"time"

	"github.com/shardlimit/shardlimit/internal/chance"
)

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
	Begins       func() error  // is called before a read; nil: there is nothing to be done then
	// Heard takes in a value that a majority has, and learns it; began is when the read or change
	// began that found it, as time elapsed. It is ErrUnsettled if another value is to follow.
	Heard func(ctx context.Context, got Reading, began int64) error
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

// exchange reads the record, and has what it finds learned, completed or begun. A whole one waits
// for each place, so that one that forgot is restored. It belongs to who holds the token.
func (w *Watch) exchange(ctx context.Context, whole bool) error {
	if w.to.Begins != nil {
		if err := w.to.Begins(); err != nil {
			return err
		}
	}
	began := w.book.nodes.Clock.Elapsed()
	err := w.Read(ctx, w.to.Participates, whole,
		func(got Reading) error { return w.to.Heard(ctx, got, began) })
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
