// Package register keeps the layout of a limit: which shards it has, where they are, and the epoch
// that numbers this arrangement. A reader reads the record of the layout (exchange.go), a register
// changes it (change.go), and a driver moves capacity between shards (driver.go). The interface
// Limit stands for the rest that a process knows of the limit.
package register

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/membership"
	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/internal/record"
	"github.com/shardlimit/shardlimit/shard"
)

// A shard with state obeys its stored epoch, whatever a process believes. A shard without state has
// only the word of its caller for the share it begins with. So that word is good for one epoch and
// for a time: the record held a layout of that epoch when it was read less than confirmFor ago. A
// call carries the end of that time, in the time of the shard's node, and the script creates no
// share after it, however long the call was on its way. Whoever replaces the record can tell from
// that when the last share of the old layout can have come into being.
const (
	confirmFor = node.Relied
	// A family's keys come and go all the time, so its record is read again before that is over.
	confirmFamilyEvery = confirmFor / 3
	// The record of a limit is read to be counted as a participant and to keep it alive.
	confirmLimitEvery = 15 * time.Second
)

// How much longer than two windows things are kept. A shard that gave its capacity away remembers
// that for StateKeep. That is more than confirmFor: whoever is behind still finds the memory of it,
// or must confirm its layout first.
const (
	StateKeep  = time.Minute
	recordKeep = 7 * 24 * time.Hour // and two windows
	// So long a record that is older than what shards obey is left to a process that knows better:
	// one that is in use reads the record within confirmLimitEvery.
	outdatedFor = confirmLimitEvery + 5*time.Second
	// epochLeap separates the epochs of a layout with which a record goes on that shards have
	// overtaken from those that others may still write meanwhile: the same epoch never means two
	// layouts.
	epochLeap = 1 << 20
)

// Reader is what a process reads of a limit's record, and believes of it. Decisions do not need it.
//
// It is safe for concurrent use.
type Reader struct {
	*record.Watch
	arranger
	bornAt  atomic.Int64      // since when the limit is known to exist, on the process' clock; 0: it is not
	leads   atomic.Int64      // the epoch of the last layout by which this process replaced another
	deleted atomic.Bool       // never of a family
	drive   func(epoch int64) // moves capacity in the background
	// Only of who holds the token: what Highest was when the exchange began, as what shards show
	// later may be in the record by then; and since when they are known to obey a later layout than
	// the record's; 0: they do not.
	shown, outdated int64
}

// Register changes the record of a limit's layout, which a majority of places keeps, and has the
// capacity moved.
//
// It is safe for concurrent use.
type Register struct {
	*Reader
	driving   atomic.Int64  // the epoch of the layout to which capacity is moved; 0: nothing is
	proposing chan struct{} // holds one token: one change at a time
}

// Env is what the registers of a process share.
type Env struct {
	Nodes    *node.Fleet // with its clock, log and key prefix
	Closed   *atomic.Bool
	Book     *record.Book      // where records are
	Fence    *membership.Fence // by which layouts hold
	Takeover bool              // whether limits that this process declares are under one
}

// New returns the register of a limit that was not looked up yet. It does no I/O.
func New(env *Env, s Subject) *Register {
	reader := &Reader{arranger: arranger{env: env, Subject: s}}
	r := &Register{Reader: reader, proposing: make(chan struct{}, 1)}
	r.drive = r.beginDriving
	every := confirmLimitEvery
	if s.Family {
		every = confirmFamilyEvery
	}
	r.Watch = env.Book.New("limit:"+s.ID, r.keep, r.Age, s.Metrics).Watch(record.Watched{
		Every: every, Participates: true, Number: r.epoch, Begins: r.begins, Heard: r.heard, Next: r.next,
		Soon: r.lookUp})
	r.Participants.Store(1)
	return r
}

// keep is how long the record lives after it was used last.
func (a *arranger) keep() time.Duration {
	window := a.Limit.Wanted().Window
	if t := a.Limit.Layout(); t != nil {
		window = max(window, t.Window)
	}
	return recordKeep + 2*window
}

// epoch is that of the layout that this process works with; 0 if it has none, or a shard has told
// of a later one.
func (r *Reader) epoch() int64 {
	t := r.Limit.Layout()
	if t == nil || r.Highest.Load() > t.Epoch {
		return 0
	}
	return t.Epoch
}

// Believed returns until when the epoch may be relied on, 0 if it may not: also if a shard has told
// of a later one.
func (r *Reader) Believed(epoch int64, elapsed clock.Elapsed) clock.Elapsed {
	if r.Highest.Load() > epoch {
		return 0
	}
	return r.Until(epoch, elapsed)
}

// Age is how long the limit is known to exist. That this process has long wanted
// to declare it, while Redis was away, is no reason to think that it did.
func (r *Reader) Age() time.Duration {
	born := r.bornAt.Load()
	if born == 0 {
		return 0
	}
	return time.Duration(r.now() - born).Truncate(10 * time.Millisecond) // or each section of a call would tell another
}

// Behind notes that a shard is at a later epoch than the layout this process works with.
func (r *Reader) Behind(epoch int64) {
	for {
		old := r.Highest.Load()
		if old >= epoch || r.Highest.CompareAndSwap(old, epoch) {
			break
		}
	}
	r.Soon()
}

// Absence tells why the limit is not known yet.
func (r *Reader) Absence() error {
	return cmp.Or(r.Failure(), errNoRecord) // it is being looked up for the first time
}

// Deleted reports whether this process has deleted the limit.
func (r *Reader) Deleted() bool { return r.deleted.Load() }

// Look reads the stored layout without declaring anything.
func (r *Reader) Look(ctx context.Context) (*shard.Layout, error) {
	ctx, cancel := context.WithTimeout(ctx, r.env.Nodes.Patience())
	defer cancel()
	got, err := r.Peek(ctx)
	switch {
	case errors.Is(err, ErrUnreadable):
		return nil, err
	case err != nil:
		return nil, Unavailable(err)
	case !got.Exists:
		return nil, fmt.Errorf("%w: %q", ErrNotFound, r.Name)
	}
	return r.decode(got.Value)
}

// Errors that callers of the public package see.
var (
	// ErrUnavailable: Redis could not be asked.
	ErrUnavailable = errors.New("shardlimit: no shard answered")
	// ErrNotFound: no limit of that name is stored.
	ErrNotFound = errors.New("shardlimit: no such limit")
	// ErrClosed: the process needs its nodes no more.
	ErrClosed = errors.New("shardlimit: client is closed")
	// ErrDeleted: this process has deleted the limit, and nobody has declared it since.
	ErrDeleted = fmt.Errorf("%w: it was deleted", ErrNotFound)
	// ErrUnreadable: what is stored is not what this version could have stored.
	ErrUnreadable = record.ErrUnreadable
)

var (
	errNoRecord  = errors.New("the record of the limit cannot be read")
	errBehind    = errors.New("the layout of a key does not follow from what the record of its family was seen to hold")
	errOvertaken = errors.New("shards obey a later layout than the record has; a process that knows it is waited for")
)

// Unavailable is ErrUnavailable with what is behind it, if that is known.
func Unavailable(cause error) error {
	switch {
	case cause == nil:
		return ErrUnavailable
	case errors.Is(cause, ErrUnavailable):
		return cause
	}
	return &unavailable{cause}
}

// unavailable is an ErrUnavailable whose text begins with the cause, in one line.
type unavailable struct{ cause error }

func (e *unavailable) Error() string {
	cause := strings.ReplaceAll(e.cause.Error(), "shardlimit: ", "")
	return "shardlimit: " + strings.ReplaceAll(cause, "\n", "; ") + ": no shard answered"
}

func (e *unavailable) Unwrap() []error { return []error{ErrUnavailable, e.cause} }
