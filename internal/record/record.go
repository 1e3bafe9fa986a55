// Package record keeps the records of a key prefix: the membership of its nodes, and the layout of
// each limit. A record is a value that a majority of the same places keeps, changed by
// compare-and-set (internal/majority). This file reads and changes one; places.go says where.
package record

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/internal/chance"
	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/majority"
	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/internal/telemetry"
	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
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
	ErrUnsettled = errors.New("the record is not settled")
	// ErrBlank is an ErrUnsettled: a place has to be restored.
	ErrBlank = fmt.Errorf("%w: a place forgot it", ErrUnsettled)
)

// Record is one value. Reads may be made at any time; changes one after the other.
type Record struct {
	book    *Book
	name    string
	metrics *telemetry.Limiter // nil for the membership
	keep    func() time.Duration
	age     func() time.Duration
	mu      sync.Mutex
	at      *seat
}

// Reading is what a majority of the places confirms, or a change made.
type Reading struct {
	Exists  bool
	Deleted bool // there is none since somebody deleted it
	Value   string
	// For so long at least a majority has held the value, by the clocks of the places.
	Held time.Duration
	// For so long the record has existed.
	Known time.Duration
	// Earlier tells that it is what the record was where it was kept before. Nobody changes it
	// there any more, and here nobody has written it, or it was forgotten since.
	Earlier bool
	// How many processes said lately that they use it; 0 after a change.
	Participants int64
	// Now is the latest time that a place told, in microseconds.
	Now int64
}

// New returns a record by its name. keep is for how long it lives after it was used last, nil: for
// ever; age is for how long it is known to exist, nil: nothing is known of that.
func (b *Book) New(name string, keep, age func() time.Duration, metrics *telemetry.Limiter) *Record {
	none := func() time.Duration { return 0 }
	r := &Record{book: b, name: name, keep: none, age: none, metrics: metrics}
	if keep != nil {
		r.keep = keep
	}
	if age != nil {
		r.age = age
	}
	return r
}

// seat is a record at certain places.
type seat struct {
	places   *Places
	alone    bool // a place that holds no value votes
	slot     int
	ref      script.VoteRef
	proposer *majority.Proposer
	before   *earlier // nil: nobody has looked
	// A place was blank in the last read of all: the next change waits for every one of them.
	blank atomic.Bool
}

// earlier is what a record was at earlier places.
type earlier struct {
	stored
	born int64 // since when at least it existed, as time elapsed
}

// sit returns the record at these places, with what was learned of it there.
func (r *Record) sit(p *Places) *seat {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at == nil || r.at.places.id() != p.id() {
		r.at = r.seatAt(p)
	}
	return r.at
}

func (r *Record) seatAt(p *Places) *seat {
	s := &seat{places: p, slot: HomeSlot, alone: p.alone(),
		proposer: majority.NewProposer(1+chance.N(int64(majority.MaxNumber)), len(p.Names))}
	if s.alone { // of a cluster: so the records are spread over its masters
		s.slot = shard.Slot(r.name)
	}
	s.ref = script.VoteKey(r.book.nodes.Prefix, shard.Tag(s.slot), p.id()+":"+r.name)
	return s
}

// Read asks all places once. What a majority confirms is told at once, by heard: a place that does
// not answer holds nobody up. A whole read gives every place some time to answer, and is
// ErrBlank if one of them has to be restored. Whoever participates is counted.
func (r *Record) Read(ctx context.Context, participates, whole bool, heard func(Reading) error) error {
	again := true
	for range moves {
		p, err := r.book.Places(ctx)
		if err != nil {
			return err
		}
		s := r.sit(p)
		began := r.book.nodes.Clock.Now()
		_, err = r.read(ctx, s, participates, whole, heard)
		took := time.Duration(r.book.nodes.Clock.Now() - began)
		switch moved := new(movedError); {
		case errors.As(err, &moved):
			r.book.follow(moved.to)
		case again && errors.Is(err, ErrUnsettled) && !errors.Is(err, ErrBlank) &&
			clock.Sleep(ctx, firstPause+chance.N(2*took+1)):
			again = false // to complete what others are about only holds them up
		default:
			return err
		}
	}
	return errMoving
}

// read asks the places of a seat. It returns what is kept there, or would be if nothing was
// settled.
func (r *Record) read(ctx context.Context, s *seat, participates, whole bool,
	heard func(Reading) error) (value stored, err error) {
	names := s.places.Names
	answers := make([]*majority.Answer, len(names))
	var req script.VoteRequest
	if req.Kind = script.VoteRead; participates {
		req.Participant = r.book.participant
	}
	var extra Reading
	var got majority.Reading
	var verdict majority.Verdict
	var errs []error
	told, over := false, false
	ended := gather(ctx, len(names), func(i int) placeReply { return r.vote(r.book.nodes.Ctx, s, i, req) },
		func(i int, reply placeReply) step {
			if answers[i] = reply.answer; reply.err != nil {
				errs = append(errs, fmt.Errorf("node %s: %w", names[i], reply.err))
			}
			extra.Now, extra.Participants = max(extra.Now, reply.now), max(extra.Participants, reply.participants)
			if got, verdict = majority.Confirm(answers); verdict == majority.Unknown {
				return wait
			}
			if value, err = parse(got.Value, got.Exists); verdict != majority.Confirmed {
				return wait
			}
			if err == nil && value.kind == moved {
				err = &movedError{value.to}
			}
			if err == nil {
				told = true
				err = heard(value.reading(got.Held, got.Known, extra))
			}
			if over = err != nil || !whole; over {
				return stop
			}
			return linger
		})
	switch {
	case over || ended && told:
		return value, err
	case ended:
		return value, fewer(s.places.String(), append(errs, clock.Ended(ctx)))
	}
	switch {
	case verdict == majority.Unknown:
		return value, fewer(s.places.String(), errs)
	case verdict == majority.Unsettled:
		return value, errors.Join(ErrUnsettled, err)
	case got.Blank:
		s.blank.Store(true)
		return value, ErrBlank
	}
	return value, nil
}

// fewer is an ErrNoMajority with why nodes gave no answer, as far as that is known.
func fewer(what string, errs []error) error {
	if len(errs) == 0 {
		return fmt.Errorf("%w (%s)", ErrNoMajority, what)
	}
	return fmt.Errorf("%w (%s): %w", ErrNoMajority, what, errors.Join(errs...))
}

// placeReply is what came of a message to a place.
type placeReply struct {
	answer            *majority.Answer
	now, participants int64
	err               error
}

// vote sends a message to a place.
func (r *Record) vote(ctx context.Context, s *seat, place int, req script.VoteRequest) (got placeReply) {
	n := r.book.nodes.Node(s.places.Names[place])
	about := telemetry.Call{Operation: telemetry.Vote, Limiter: r.metrics, Shard: shard.Tag(s.slot)}
	got.err = r.book.call(ctx, n, s.slot, about, func(ctx context.Context, e *script.Endpoint) error {
		req.Keep, req.Alone, req.ParticipantTTL = r.keep(), s.alone, participantTTL
		reply, err := e.Vote(ctx, s.ref, req)
		if err != nil {
			return err
		}
		n.ServerClock(s.slot).Learn(r.book.nodes.Clock.Elapsed(), reply.Now)
		got.now, got.participants, got.answer = reply.Now, reply.Participants, &majority.Answer{
			OK: reply.Done, Votes: reply.Votes, Mark: reply.Mark, Promised: majority.Ballot(reply.Promised),
			Accepted: majority.Ballot(reply.Accepted), Value: reply.Value, Age: reply.Age, Known: reply.Known}
		return nil
	})
	return got
}

// call makes a call about records to a node. One that is away is asked only when it is time to find
// out whether it is back.
func (b *Book) call(ctx context.Context, n *node.Node, slot int, about telemetry.Call,
	do func(context.Context, *script.Endpoint) error) error {
	if n == nil {
		return node.ErrStranger
	}
	ctx, cancel := context.WithTimeout(ctx, max(b.nodes.CallTimeout, patience))
	defer cancel()
	ctx, call, err := n.BeginUnlessAway(ctx, slot, about, true)
	if err != nil {
		return err
	}
	err = do(ctx, call.Scripts)
	call.Finish(ctx, err)
	return err
}

// Change makes rounds until one chooses what next makes of what it found. It returns that.
func (r *Record) Change(ctx context.Context, next func(Reading) (string, error)) (Reading, error) {
	return r.change(ctx, func(found Reading) (stored, error) {
		text, err := next(found)
		return stored{kind: live, text: text}, err
	})
}

// Delete has the record exist no more.
func (r *Record) Delete(ctx context.Context) error {
	_, err := r.change(ctx, func(Reading) (stored, error) { return stored{kind: gone}, nil })
	return err
}

func (r *Record) change(ctx context.Context, next func(Reading) (stored, error)) (Reading, error) {
	ctx, cancel := context.WithTimeout(ctx, max(changePatience, r.book.nodes.CallTimeout))
	defer cancel()
	began, looked := r.book.nodes.Clock.Elapsed(), false
	var fetched *Places // for which of the places it was looked what the record was before
	for range 2 + moves {
		p, err := r.book.Places(ctx)
		if err != nil {
			return Reading{}, err
		}
		s := r.sit(p)
		got, err := r.changeAt(ctx, s, func(found stored, of Reading) (stored, error) {
			switch {
			case found.kind == moved:
				return stored{}, &movedError{found.to}
			case found.kind == none && !looked:
				return stored{}, errNotLooked
			case found.kind == none && len(p.Before) > 0 && fetched != p:
				return stored{}, errNotFetched
			case found.kind == none && fetched == p:
				found, of.Earlier = s.before.stored, true
			}
			return next(found.reading(of.Held, of.Known, of))
		})
		if at := new(movedError); errors.As(err, &at) {
			r.book.follow(at.to)
			continue
		}
		switch {
		case errors.Is(err, errNotLooked):
			looked, err = true, r.book.ConfirmSince(ctx, began)
		case errors.Is(err, errNotFetched):
			fetched = p
			s.before, err = r.fetch(ctx, p)
		default:
			got.Earlier = false
			return got, err
		}
		if err != nil {
			return Reading{}, err
		}
	}
	return Reading{}, errMoving
}

// known is for how long the record existed, at these places and at earlier ones.
func (r *Record) known(s *seat, here time.Duration) time.Duration {
	here = max(here, r.age())
	if s.before == nil {
		return here
	}
	return max(here, time.Duration(r.book.nodes.Clock.Elapsed()-s.before.born))
}

var (
	errNotFetched = errors.New("nobody has looked at earlier places")
	// Where there is none, the places may have forgotten it, and others have begun anew elsewhere.
	errNotLooked = errors.New("nobody has looked where the records are")
	errMoving    = fmt.Errorf("%w: the records of the key prefix keep moving; try again", ErrUnsettled)
)

// movedError tells that the record is kept elsewhere.
type movedError struct{ to *Places }

func (e *movedError) Error() string { return "the records have moved to " + e.to.String() }

// changeAt makes rounds at a seat until one chooses, at most until ctx ends.
func (r *Record) changeAt(ctx context.Context, s *seat,
	next func(found stored, of Reading) (stored, error)) (got Reading, err error) {
	patient := s.blank.Swap(false)
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		began := r.book.nodes.Clock.Now()
		got, err = r.round(ctx, s, patient, next)
		if !errors.Is(err, majority.ErrOvertaken) && !errors.Is(err, majority.ErrBlank) {
			return got, err
		}
		took := time.Duration(r.book.nodes.Clock.Now() - began) // the longer rounds take, the more of them meet
		if !clock.Sleep(ctx, chance.N(max(pause, 2*took))) {
			return got, fmt.Errorf("%w: %w", ErrContended, clock.Ended(ctx))
		}
	}
}

// round makes one round. A patient one waits for every place.
func (r *Record) round(ctx context.Context, s *seat, patient bool,
	next func(found stored, of Reading) (stored, error)) (got Reading, err error) {
	ours := r.book.nodes.Clock
	s.proposer.Outlast(ours.At(ours.Now()).UnixMilli())
	round := s.proposer.Begin()
	defer s.proposer.End(round)
	known := time.Duration(0)
	var errs []error
	send := func(to []majority.Addressed, heed func(place int, a majority.Answer)) {
		settled, known := 0, known // those that are not blank: to go on without a vote takes all
		ended := gather(ctx, len(to), func(i int) placeReply {
			m := &to[i].Message
			return r.vote(ctx, s, to[i].Place, script.VoteRequest{Kind: int(m.Kind),
				Ballot: script.VoteBallot(m.Ballot), Mark: m.Mark, Value: m.Value, Known: known})
		}, func(i int, reply placeReply) step {
			if reply.err != nil {
				errs = append(errs, fmt.Errorf("node %s: %w", s.places.Names[to[i].Place], reply.err))
				return wait
			}
			got.Now = max(got.Now, reply.now)
			heed(to[i].Place, *reply.answer)
			if reply.answer.Votes || !reply.answer.OK {
				settled++
			}
			if !patient && settled >= majority.Majority(len(s.places.Names)) {
				return hurry
			}
			return wait
		})
		if ended {
			errs = append(errs, clock.Ended(ctx))
		}
	}
	var prepare []majority.Addressed
	for i := range s.places.Names {
		prepare = append(prepare, majority.Addressed{Place: i, Message: round.Ask()})
	}
	send(prepare, round.Promise)
	var made stored
	accept, err := round.Choose(func(found majority.Found) (string, error) {
		known = r.known(s, found.Known)
		old, err := parse(found.Value, found.Exists)
		if err != nil {
			return "", err
		}
		if made, err = next(old, Reading{Held: found.Held, Known: known, Now: got.Now}); err != nil {
			return "", err
		}
		if made.same(old) {
			got.Held = found.Held
		}
		return made.encode()
	})
	if err != nil {
		return got, s.refused(err, errs)
	}
	send(accept, round.Accepted)
	if err := round.Err(); err != nil {
		return got, s.refused(err, errs)
	}
	send(round.Restores(), func(int, majority.Answer) {})
	return made.reading(got.Held, known, got), nil
}

// refused is the error of a round, with why places did not answer.
func (s *seat) refused(err error, errs []error) error {
	if errors.Is(err, majority.ErrNoMajority) {
		return fewer(s.places.String(), errs)
	}
	return err
}

// step is what becomes of the rest when one of several tasks is done.
type step uint8

const (
	wait   step = iota
	linger      // enough are done: the others have as long again as one place may take
	hurry       // enough are done: who takes much longer is not waited for
	stop
)

// gather has tasks done at once, and hear take in what comes of them. It reports whether ctx ended
// before. The tasks go on all the same.
func gather[T any](ctx context.Context, n int, do func(i int) T, hear func(i int, got T) step) (ended bool) {
	type result struct {
		i   int
		got T
	}
	results := make(chan result, n)
	for i := range n {
		go func() { results <- result{i, do(i)} }()
	}
	began := time.Now()
	var late <-chan time.Time
	for range n {
		select {
		case r := <-results:
			least := leastGrace
			switch hear(r.i, r.got) {
			case stop:
				return false
			case wait:
				continue
			case linger:
				least = patience
			}
			if late == nil {
				late = time.After(max(4*time.Since(began), least))
			}
		case <-late:
			return false
		case <-ctx.Done():
			return true
		}
	}
	return false
}

const leastGrace = 10 * time.Millisecond

// fetch finds what the record was at earlier places, the latest first, and has nobody change it
// there any more.
func (r *Record) fetch(ctx context.Context, p *Places) (*earlier, error) {
	for _, names := range p.Before {
		if !r.book.lists(&names) {
			continue // they were taken out of the list: nobody can ask them
		}
		s := r.seatAt(&names)
		var was earlier
		if _, err := r.changeAt(ctx, s, func(found stored, of Reading) (stored, error) {
			was.born = r.book.nodes.Clock.Elapsed() - int64(of.Known)
			if was.stored = found; found.kind == moved {
				was.stored = found.was()
				return found, nil
			}
			return found.moveTo(p), nil
		}); err != nil {
			return nil, err
		}
		if was.kind != none {
			return &was, nil
		}
	}
	return &earlier{born: r.book.nodes.Clock.Elapsed()}, nil
}

// Peek reads the record without writing anything. Of one that is not settled it tells what the next
// change would go on with.
func (r *Record) Peek(ctx context.Context) (Reading, error) {
	for range moves {
		p, err := r.book.peek(ctx)
		if err != nil || p == nil {
			return Reading{}, err
		}
		value, err := r.peekAt(ctx, p)
		for i := range p.Before {
			if before := &p.Before[i]; err == nil && value.kind == none && r.book.lists(before) {
				if value, err = r.peekAt(ctx, before); value.kind == moved {
					value, err = value.was(), nil
				}
			}
		}
		if value.kind != moved {
			return value.reading(0, 0, Reading{}), err
		}
		r.book.follow(value.to)
	}
	return Reading{}, errMoving
}

// peekAt is Peek at certain places.
func (r *Record) peekAt(ctx context.Context, p *Places) (stored, error) {
	value, err := r.read(ctx, r.seatAt(p), false, false, func(Reading) error { return nil })
	if value.kind == moved || value.kind != none && errors.Is(err, ErrUnsettled) && !errors.Is(err, ErrUnreadable) {
		err = nil
	}
	return value, err
}

// Nodes are the names of the nodes that keep the records.
func (b *Book) Nodes() []string {
	if p := b.known.Load(); p != nil {
		return p.Names
	}
	return nil
}
