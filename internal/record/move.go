package record

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/shardlimit/shardlimit/internal/chance"
	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/majority"
	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

// This file moves all records to other places. The places choose their successor. One that has
// accepted it takes nothing any more, so what they hold is final then. It is copied, and only then
// do nodes tell of the later places. Whoever meets a place that has moved finishes the move if
// nobody else does, and waits for that where a majority has moved.

const (
	// moveWithin is how long a move may take: less than restoredAfter, so that no node that forgets
	// what was copied to it is told meanwhile that it votes.
	moveWithin = restoredAfter / 2
	// helpAfter is after how long, and up to twice that, a process finishes a move of another.
	helpAfter = time.Second
	// copiesAtOnce is how many records a process copies at a time.
	copiesAtOnce = 64
)

// help finishes a move of these places in the background unless somebody else does so for a while.
func (b *Book) help(from *Places) {
	b.moved.Store(from)
	if !b.helping.CompareAndSwap(false, true) {
		return
	}
	if !b.nodes.Spawn(func(ctx context.Context) {
		defer b.helping.Store(false)
		if !clock.Sleep(ctx, helpAfter+chance.N(helpAfter)) || b.Known().id() != from.id() {
			return
		}
		if err := (&move{b, from, nil}).finish(ctx); err != nil {
			b.nodes.Log.Warn("a move of the records could not be finished", "err", err)
		}
	}) {
		b.helping.Store(false)
	}
}

// pass waits until it is known where the records have moved, at most until ctx ends.
func (b *Book) pass(ctx context.Context, from *Places) error {
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		if err := b.ConfirmSince(ctx, b.nodes.Clock.Elapsed()); err != nil {
			return err
		}
		if b.Known().id() != from.id() {
			return nil
		}
		b.help(from)
		if !clock.Sleep(ctx, pause+chance.N(pause)) {
			return fmt.Errorf("%w: %w", errMoving, clock.Ended(ctx))
		}
	}
}

// Move has the records kept at the nodes that are to keep them: at none that drains, or is out. Two
// moves at once end in one of them.
func (b *Book) Move(ctx context.Context, open []shard.Node) error {
	if _, err := b.Places(ctx); err != nil {
		return err
	}
	if err := b.Begin(ctx); err != nil {
		return err
	}
	defer b.End()
	if err := b.look(ctx, true); err != nil { // somebody may have moved them
		return err
	}
	for range moves {
		p := b.known.Load()
		names := choose(b.nodes.Prefix, p.Names, open)
		if len(names) == 0 || slices.Equal(names, p.Names) {
			return nil
		}
		err := (&move{b, p, nil}).finish(ctx)
		if err == nil {
			continue // others had begun to move them
		}
		if !errors.Is(err, errMoving) {
			return err
		}
		m := &move{b, p, &Places{Generation: p.Generation + 1, Names: names}}
		if err := m.ready(ctx); err != nil {
			return err
		}
		return m.finish(ctx)
	}
	return errMoving
}

// move is one of all records, from places to those that follow.
type move struct {
	*Book
	from, to *Places // to is nil until they are chosen
}

// ready makes sure that a majority of the next places votes for records that are not there. One
// that keeps no records now has forgotten none, and is told at once that it votes.
func (m *move) ready(ctx context.Context) error {
	found := m.poll(ctx, pointerKeep, true)
	wrote := m.write(ctx, found, func(p pointer) bool {
		id := m.called(p)
		return !p.Whole && slices.Contains(m.to.Names, id) && !slices.Contains(m.from.Names, id)
	}, m.from)
	m.identify(wrote)
	return m.most(append(found, wrote...), func(p pointer) bool { return p.Whole })
}

// most returns nil if the last pointers of a majority of the next places are so, else why not.
func (m *move) most(found []pointer, are func(pointer) bool) error {
	so, n := make(map[string]bool), 0
	var errs []error
	for _, p := range found {
		so[m.called(p)], errs = p.err == nil && are(p), append(errs, p.err)
	}
	for _, name := range m.to.Names {
		if so[name] {
			n++
		}
	}
	if n < majority.Majority(len(m.to.Names)) {
		return fewer(m.to.Names, errs)
	}
	return nil
}

// finish has all records move to the next places, or to those that others have chosen. Several
// processes may do so at once, and again.
func (m *move) finish(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, moveWithin)
	defer cancel()
	r := m.New(script.VoteSuccessor, func() time.Duration { return pointerKeep }, nil, nil)
	s := r.groupAt(m.from, m.from.id())
	s.blank.Store(m.to == nil) // then every place is heard: one of them may have accepted it
	var err error
	if m.to, err = r.decide(ctx, s, m.to); err != nil {
		return err
	}
	records, err := m.list(ctx)
	if err != nil {
		return err
	}
	busy := make(chan struct{}, copiesAtOnce)
	if gather(ctx, len(records), func(i int) error {
		busy <- struct{}{}
		defer func() { <-busy }()
		return m.copy(ctx, records[i])
	}, func(_ int, failed error) step {
		if err = failed; err != nil {
			return stop
		}
		return wait
	}) {
		err = fmt.Errorf("%d records were not copied in time: %w", len(records), clock.Ended(ctx))
	}
	if err == nil {
		err = m.announce(ctx)
	}
	if err != nil {
		return err
	}
	m.nodes.Log.Info("the records of the key prefix are kept elsewhere", "nodes", m.to.String(),
		"records", len(records))
	m.follow(m.to)
	return nil
}

// list returns the records at places that have moved.
func (m *move) list(ctx context.Context) ([]script.VoteRecord, error) {
	_, records, err := m.New("", nil, nil, nil).final(ctx, m.from, script.VoteList)
	slices.SortFunc(records, func(a, b script.VoteRecord) int { return cmp.Compare(a.Name, b.Name) })
	records = slices.CompactFunc(records, func(a, b script.VoteRecord) bool { return a.Name == b.Name })
	return slices.DeleteFunc(records, func(r script.VoteRecord) bool { return r.Name == script.VoteSuccessor }), err
}

// final returns what places that have moved hold of a record or, by a list, the records that they
// hold.
func (r *Record) final(ctx context.Context, from *Places,
	kind majority.Kind) (kept majority.Found, records []script.VoteRecord, err error) {
	s := r.groupAt(from, from.id())
	answers := make([]*majority.Answer, len(from.Names))
	var errs []error
	err = majority.ErrNoMajority
	gather(ctx, len(answers), func(i int) (got placeReply) {
		for all := []script.VoteRecord(nil); ; {
			got = r.voteAt(ctx, s, i, script.VoteRequest{Kind: kind, After: len(all)})
			if all = append(all, got.records...); len(got.records) == 0 {
				got.records = all
				return got
			}
		}
	}, func(i int, reply placeReply) step {
		if errs = append(errs, reply.err); reply.err == nil && reply.Moved {
			answers[i], records = &reply.Answer, append(records, reply.records...)
		}
		if kept, err = majority.Final(answers); err == nil {
			return hurry
		}
		return wait
	})
	if err != nil {
		err = fewer(from.Names, append(errs, clock.Ended(ctx)))
	}
	return kept, records, err
}

// copy has later places hold a record as places do that have moved. One of which too many places
// hold something foreign stays behind.
func (m *move) copy(ctx context.Context, record script.VoteRecord) error {
	var was majority.Found
	r := m.New(record.Name, func() time.Duration { return record.Keep },
		func() time.Duration { return was.Known }, nil)
	was, _, err := r.final(ctx, m.from, majority.Read)
	if err == nil && was.Exists {
		_, _, err = r.changeAt(ctx, r.groupAt(m.to, m.to.id()), func(kept majority.Found, _ int64) (string, error) {
			if kept.Exists { // another process has copied it, or changed it since
				return kept.Value, nil
			}
			return was.Value, nil
		})
	}
	if errors.Is(err, script.ErrForeignState) {
		m.nodes.Log.Warn("a record cannot be moved", "record", record.Name, "err", err)
		return nil
	}
	return err
}

// announce has a majority of the next places, and all nodes that answer and have forgotten nothing,
// tell where the records are.
func (m *move) announce(ctx context.Context) error {
	found := m.poll(ctx, pointerKeep, true)
	wrote := m.write(ctx, found, func(p pointer) bool { return p.Whole && m.to.follows(&p.said.Places) }, m.to)
	return m.most(append(found, wrote...), func(p pointer) bool { return p.Whole && !m.to.follows(&p.said.Places) })
}
