package record

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shardlimit/shardlimit/internal/chance"
	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/majority"
	"github.com/shardlimit/shardlimit/script"
)

// maker makes what places are to keep of what they do, given the latest time that one told.
type maker func(kept majority.Found, now int64) (string, error)

// changeAt makes rounds at a group until one chooses, at most until ctx ends.
func (r *Record) changeAt(ctx context.Context, s *group, next maker) (made majority.Found, now int64, err error) {
	patient := s.blank.Swap(false)
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		began := r.book.nodes.Clock.Now()
		made, now, err = r.round(ctx, s, patient, next)
		if !errors.Is(err, majority.ErrOvertaken) && !errors.Is(err, majority.ErrBlank) {
			return made, now, err
		}
		took := time.Duration(r.book.nodes.Clock.Now() - began) // the longer rounds take, the more of them meet
		if !clock.Sleep(ctx, chance.N(max(pause, 2*took))) {
			return made, now, fmt.Errorf("%w: %w", ErrContended, clock.Ended(ctx))
		}
	}
}

// round makes one round. A patient one waits for every place.
func (r *Record) round(ctx context.Context, s *group, patient bool,
	next maker) (made majority.Found, now int64, err error) {
	ours := r.book.nodes.Clock
	s.proposer.Outlast(ours.At(ours.Now()).UnixMilli())
	round := s.proposer.Begin()
	defer s.proposer.End(round)
	p := sending{record: r, group: s, patient: patient}
	p.send(ctx, round.Prepares(), round.Promise)
	accepts, err := round.Choose(func(found majority.Found) (value string, err error) {
		found.Known = max(found.Known, r.age())
		p.known = found.Known
		if value, err = next(found, p.now); !found.Exists || value != found.Value {
			found.Held = 0
		}
		made = found
		made.Exists, made.Value = true, value
		return value, err
	})
	if err == nil {
		p.send(ctx, accepts, round.Accepted)
		err = round.Err()
	}
	if err == nil {
		p.send(ctx, round.Restores(), func(int, majority.Answer) {})
	}
	if errors.Is(err, majority.ErrNoMajority) {
		err = fewer(s.places.Names, p.errs)
	}
	return made, p.now, err
}

// sending is the messages of a round, as they are sent.
type sending struct {
	record  *Record
	group   *group
	patient bool
	known   time.Duration // for so long the record is known to exist
	now     int64         // the latest time that a place told
	errs    []error       // of places that gave no answer
}

// send sends messages, and has the answers heeded. A patient one waits for all of them.
func (p *sending) send(ctx context.Context, to []majority.Message, heed func(place int, a majority.Answer)) {
	settled, known := 0, p.known // those that are not blank: to go on without a vote takes all
	gather(ctx, len(to), func(i int) placeReply {
		m := &to[i]
		return p.record.vote(ctx, p.group, to[i].Place, script.VoteRequest{Kind: m.Kind, Ballot: m.Ballot,
			Mark: m.Mark, Value: m.Value, Known: known})
	}, func(i int, reply placeReply) step {
		if reply.err != nil {
			p.errs = append(p.errs, reply.err)
			return wait
		}
		p.now = max(p.now, int64(reply.Now))
		heed(to[i].Place, reply.Answer)
		if reply.Votes || !reply.OK {
			settled++
		}
		if !p.patient && settled >= majority.Majority(len(p.group.places.Names)) {
			return hurry
		}
		return wait
	})
	p.errs = append(p.errs, clock.Ended(ctx))
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

// leastGrace is how long who is farther away has at least: a place that a round leaves behind is
// missed if another one stalls before that is mended.
const leastGrace = 25 * time.Millisecond
