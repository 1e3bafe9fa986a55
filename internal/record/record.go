// Package record keeps the records of a key prefix: the membership of its nodes, and the layout of
// each limit. A record is a value that a majority of the same places keeps, changed by
// compare-and-set (internal/majority). This file reads and changes one by round.go; places.go says
// where, and move.go moves all.
package record

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/internal/chance"
	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/majority"
	"github.com/shardlimit/shardlimit/internal/telemetry"
	"github.com/shardlimit/shardlimit/script"
)

const (
	// The pauses between the rounds of a change double up to mostPause: the others that change the
	// record have to come to their turn.
	firstPause = 4 * time.Millisecond
	mostPause  = 256 * time.Millisecond
	// moves is how often a record is followed to other places.
	moves = 4
	// patience is how long one place may take, unless calls may take longer.
	patience = 250 * time.Millisecond
	// changePatience is how long a change may take at the most, unless calls may take longer.
	changePatience = 5 * time.Second
	// participantTTL is for how long a process that was not heard of still counts.
	participantTTL = time.Minute
)

var (
	// ErrNoMajority tells that too few of the places answered.
	ErrNoMajority = errors.New("no majority of the nodes that keep the records answers")
	// ErrContended tells that others changed the record all the time.
	ErrContended = errors.New("others change the record at the same time")
	// ErrUnsettled tells that a read found nothing that it can rely on: a change has to be made.
	ErrUnsettled = errors.New("the record is not settled; try again")
	// ErrUnreadable tells that what is stored is nothing that this version could have stored.
	ErrUnreadable = errors.New("what is stored cannot be read by this version")
	// ErrBlank is an ErrUnsettled: a place has to be restored.
	ErrBlank = fmt.Errorf("%w: a place forgot it", ErrUnsettled)
	// errUnderWay is one, too: another round may be about to settle it.
	errUnderWay = fmt.Errorf("%w: others may be changing it", ErrUnsettled)
)

// Record is one value. Reads may be made at any time; changes one after the other.
type Record struct {
	book    *Book
	name    string
	metrics *telemetry.Limiter // nil for the membership
	keep    func() time.Duration
	age     func() time.Duration
	mu      sync.Mutex
	at      *group
}

// Reading is what a majority of the places confirms, or a change made.
type Reading struct {
	majority.Found
	Deleted bool // there is none since somebody deleted it
	// How many processes said lately that they use it; 0 after a change.
	Participants int64
	// Now is the latest time that a place told, in microseconds.
	Now int64
}

// What the places keep begins with a letter: a value follows it, or the record was deleted.
const live, gone = "v", "d"

// reading is what the places keep, as it is told.
func reading(kept majority.Found) (got Reading, err error) {
	got.Found = kept
	got.Value, got.Exists = strings.CutPrefix(kept.Value, live)
	if got.Deleted = kept.Value == gone; got.Deleted {
		got.Value = ""
	} else if kept.Exists && !got.Exists {
		err = fmt.Errorf("%w: %.20q", ErrUnreadable, kept.Value)
	}
	return got, err
}

// New returns a record by its name. keep is for how long it lives after it was used last, nil: for
// ever; age is for how long it is known to exist, nil: nothing is known of that.
func (b *Book) New(name string, keep, age func() time.Duration, metrics *telemetry.Limiter) *Record {
	if none := func() time.Duration { return 0 }; keep == nil {
		keep, age = none, none
	} else if age == nil {
		age = none
	}
	return &Record{book: b, name: name, keep: keep, age: age, metrics: metrics}
}

// group is a record at certain places.
type group struct {
	places   *Places
	alone    bool // a place that holds no value votes
	ref      script.VoteRef
	proposer *majority.Proposer
	// A place was blank in the last read of all: the next change waits for every one of them.
	blank atomic.Bool
}

// current returns the record at these places, with what was learned of it there.
func (r *Record) current(p *Places) *group {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at == nil || r.at.places.id() != p.id() {
		r.at = r.groupAt(p, p.id())
	}
	return r.at
}

func (r *Record) groupAt(p *Places, id string) *group {
	return &group{places: p, alone: len(p.Names) == 1, ref: script.VoteKey(r.book.nodes.Prefix, homeTag, id, r.name),
		proposer: majority.NewProposer(1+chance.N(int64(majority.MaxNumber)), len(p.Names))}
}

// where has something done at the places where the record is, and again at later ones if they have
// moved meanwhile.
func (r *Record) where(ctx context.Context, do func(*group) error) error {
	began := r.book.nodes.Clock.Elapsed()
	for range moves {
		p, err := r.book.Places(ctx)
		if err != nil {
			return err
		}
		switch err = do(r.current(p)); {
		case errors.Is(err, errNotLooked):
			err = r.book.ConfirmSince(ctx, began)
		case errors.Is(err, errMoved):
			err = r.book.pass(ctx, p)
		default:
			return err
		}
		if err != nil {
			return err
		}
	}
	return errMoving
}

var (
	// Where there is none, the places may have forgotten it, and others have begun anew elsewhere.
	errNotLooked = errors.New("nobody has looked where the records are")
	errMoved     = errors.New("the records of the key prefix have moved")
	errMoving    = fmt.Errorf("%w: the records of the key prefix are moving", ErrUnsettled)
)

// Read asks all places once. What a majority confirms is told at once, by heard: a place that does
// not answer holds nobody up. A whole read gives every place some time to answer, and is
// ErrBlank if one of them has to be restored. Whoever participates is counted.
func (r *Record) Read(ctx context.Context, participates, whole bool, heard func(Reading) error) error {
	return r.where(ctx, func(s *group) error {
		began := r.book.nodes.Clock.Now()
		_, err := r.read(ctx, s, participates, whole, heard)
		took := time.Duration(r.book.nodes.Clock.Now() - began)
		if errors.Is(err, errUnderWay) && clock.Sleep(ctx, firstPause+chance.N(2*took+1)) {
			_, err = r.read(ctx, s, participates, whole, heard) // to complete what others are about holds them up
		}
		return err
	})
}

// read asks the places of a group. It returns what is kept there, or would be if nothing was
// settled.
func (r *Record) read(ctx context.Context, s *group, participates, whole bool,
	heard func(Reading) error) (value Reading, err error) {
	names := s.places.Names
	answers := make([]*majority.Answer, len(names))
	req := script.VoteRequest{Kind: majority.Read}
	if participates {
		req.Participant = r.book.participant
	}
	var got majority.Reading
	var verdict majority.Verdict
	var errs []error
	told, over := false, false
	var now, participants int64
	ended := gather(ctx, len(names), func(i int) placeReply { return r.vote(r.book.nodes.Ctx, s, i, req) },
		func(i int, reply placeReply) step {
			if errs = append(errs, reply.err); reply.err == nil {
				answers[i] = &reply.Answer
			}
			now, participants = max(now, int64(reply.Now)), max(participants, reply.Participants)
			if got, verdict = majority.Confirm(answers); verdict == majority.Unknown {
				return wait
			}
			value, err = reading(got.Found)
			if value.Now, value.Participants = now, participants; verdict != majority.Confirmed {
				return wait
			}
			if err == nil && !told {
				told = true
				err = heard(value)
			}
			if over = err != nil || !whole; over {
				return stop
			}
			return linger
		})
	switch {
	case over || ended && told:
		return value, err
	case ended || verdict == majority.Unknown:
		return value, fewer(names, append(errs, clock.Ended(ctx)))
	case err != nil: // what is there cannot be read
		return value, err
	case verdict == majority.Unsettled:
		return value, errUnderWay
	case got.Blank:
		s.blank.Store(true)
		return value, ErrBlank
	}
	return value, nil
}

// fewer is an ErrNoMajority of these places, with why they gave no answer, as far as that is known.
// It is an ErrForeignState if so many hold what is foreign that the rest is no majority.
func fewer(places []string, errs []error) error {
	var foreign []int
	for i, err := range errs {
		if errors.Is(err, script.ErrForeignState) {
			foreign = append(foreign, i)
		}
	}
	if len(places)-len(foreign) >= majority.Majority(len(places)) {
		for _, i := range foreign {
			errs[i] = errors.New(errs[i].Error())
		}
	}
	err := fmt.Errorf("%w (%s)", ErrNoMajority, strings.Join(places, ", "))
	if cause := errors.Join(errs...); cause != nil {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// placeReply is what came of a message to a place.
type placeReply struct {
	script.VoteReply
	records []script.VoteRecord
	err     error // nil: there is an answer
}

// vote sends a message to a place. One that has moved gives no answer.
func (r *Record) vote(ctx context.Context, s *group, place int, req script.VoteRequest) placeReply {
	got := r.voteAt(ctx, s, place, req)
	if got.err == nil && got.Moved {
		got.err = fmt.Errorf("node %s: %w", s.places.Names[place], errMoved)
		if known := r.book.Known(); known.id() == s.places.id() {
			r.book.help(s.places) // a majority may go on without it
		}
	}
	return got
}

// voteAt is vote, with the answer of a place that has moved.
func (r *Record) voteAt(ctx context.Context, s *group, place int, req script.VoteRequest) (got placeReply) {
	name := s.places.Names[place]
	n := r.book.nodes.Node(name)
	about := telemetry.Call{Operation: telemetry.Vote, Limiter: r.metrics, Shard: homeTag}
	got.err = r.book.call(ctx, n, about, func(ctx context.Context, e *script.Endpoint) (err error) {
		req.Keep, req.Alone, req.ParticipantTTL = r.keep(), s.alone, participantTTL
		if got.VoteReply, err = e.Vote(ctx, s.ref, req); err != nil {
			return err
		}
		n.ServerClock(HomeSlot).Learn(r.book.nodes.Clock.Elapsed(), got.Now)
		if req.Kind == script.VoteList {
			got.records, err = got.Records()
		}
		return err
	})
	if got.err != nil {
		got.err = fmt.Errorf("node %s: %w", name, got.err)
	}
	return got
}

// Change makes rounds until one chooses what next makes of what it found. It returns that.
func (r *Record) Change(ctx context.Context, next func(Reading) (string, error)) (Reading, error) {
	return r.change(ctx, func(found Reading) (string, error) {
		text, err := next(found)
		return live + text, err
	})
}

// Delete has the record exist no more.
func (r *Record) Delete(ctx context.Context) error {
	_, err := r.change(ctx, func(Reading) (string, error) { return gone, nil })
	return err
}

func (r *Record) change(ctx context.Context, next func(Reading) (string, error)) (got Reading, err error) {
	ctx, cancel := context.WithTimeout(ctx, max(changePatience, r.book.nodes.CallTimeout))
	defer cancel()
	looked := false
	err = r.where(ctx, func(s *group) error {
		made, now, err := r.changeAt(ctx, s, func(kept majority.Found, now int64) (string, error) {
			if !kept.Exists && !looked {
				looked = true
				return "", errNotLooked
			}
			found, err := reading(kept)
			if found.Now = now; err != nil {
				return "", err
			}
			return next(found)
		})
		if err == nil {
			got, err = reading(made)
			got.Now = now
		}
		return err
	})
	return got, err
}

// Peek reads the record without writing anything. Of one that is not settled it tells what the next
// change would go on with: nothing, if who began it has died. Others may be moving it.
func (r *Record) Peek(ctx context.Context) (value Reading, err error) {
	for range moves {
		var p *Places
		if p, err = r.book.latest(r.book.poll(ctx, 0, true)); p.Generation == 0 {
			return Reading{}, err
		}
		value, err = r.read(ctx, r.groupAt(p, p.id()), false, false, func(Reading) error { return nil })
		switch found := value.Exists || value.Deleted; {
		case found && errors.Is(err, ErrUnsettled):
			return value, nil
		case !errors.Is(err, errMoved) && !errors.Is(err, errUnderWay):
			return value, err
		}
		clock.Sleep(ctx, mostPause/moves)
	}
	if errors.Is(err, errUnderWay) && ctx.Err() == nil {
		return value, nil // a majority of the places has nothing
	}
	return value, errMoving
}
