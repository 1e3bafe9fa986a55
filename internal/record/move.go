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
		if err := b.finish(ctx, from, nil); err != nil {
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
		err := b.finish(ctx, p, nil)
		if err == nil {
			continue // others had begun to move them
		}
		if !errors.Is(err, errMoving) {
			return err
		}
		next := &Places{Generation: p.Generation + 1, Names: names}
		if err := b.ready(ctx, p, next); err != nil {
			return err
		}
		return b.finish(ctx, p, next)
	}
	return errMoving
}

// ready makes sure that a majority of the next places votes for records that are not there. One
// that keeps no records now has forgotten none, and is told at once that it votes.
func (b *Book) ready(ctx context.Context, from, to *Places) error {
	found := b.pointers(ctx, pointerKeep, true)
	wrote := b.write(ctx, found, func(p pointer) bool {
		id := b.called(p)
		return !p.Whole && slices.Contains(to.Names, id) && !slices.Contains(from.Names, id)
	}, from)
	b.identify(wrote)
	return b.most(to, append(found, wrote...), func(p pointer) bool { return p.Whole })
}

// most returns why there is no majority of places whose last pointers are so; nil: there is one.
func (b *Book) most(of *Places, found []pointer, are func(pointer) bool) error {
	so, n := make(map[string]bool), 0
	var errs []error
	for _, p := range found {
		so[b.called(p)], errs = p.err == nil && are(p), append(errs, p.err)
	}
	for _, name := range of.Names {
		if so[name] {
			n++
		}
	}
	if n < majority.Majority(len(of.Names)) {
		return fewer(of.Names, errs)
	}
	return nil
}

// finish has all records move from these places to those that follow: next, or those that others
// have chosen. Several processes may do so at once, and again.
func (b *Book) finish(ctx context.Context, from, next *Places) error {
	ctx, cancel := context.WithTimeout(ctx, moveWithin)
	defer cancel()
	r := b.New(script.VoteSuccessor, func() time.Duration { return pointerKeep }, nil, nil)
	s := r.groupAt(from, from.id())
	s.blank.Store(next == nil) // then every place is heard: one of them may have accepted it
	to, err := r.decide(ctx, s, next)
	if err != nil {
		return err
	}
	records, err := b.list(ctx, from)
	if err != nil {
		return err
	}
	busy := make(chan struct{}, copiesAtOnce)
	if gather(ctx, len(records), func(i int) error {
		busy <- struct{}{}
		defer func() { <-busy }()
		return b.copy(ctx, records[i], from, to)
	}, func(_ int, failed error) step {
		if err = failed; err != nil {
			return stop
		}
		return wait
	}) {
		err = fmt.Errorf("%d records were not copied in time: %w", len(records), clock.Ended(ctx))
	}
	if err == nil {
		err = b.announce(ctx, to)
	}
	if err != nil {
		return err
	}
	b.nodes.Log.Info("the records of the key prefix are kept elsewhere", "nodes", to.String(), "records", len(records))
	b.follow(to)
	return nil
}

// list returns the records at places that have moved.
func (b *Book) list(ctx context.Context, from *Places) ([]script.VoteRecord, error) {
	_, records, err := b.New("", nil, nil, nil).final(ctx, from, script.VoteList)
	slices.SortFunc(records, func(a, b script.VoteRecord) int { return cmp.Compare(a.Name, b.Name) })
	records = slices.CompactFunc(records, func(a, b script.VoteRecord) bool { return a.Name == b.Name })
	return slices.DeleteFunc(records, func(r script.VoteRecord) bool { return r.Name == script.VoteSuccessor }), err
}

// final returns what places that have moved hold of a record or, by a list, the records that they
// hold.
func (r *Record) final(ctx context.Context, from *Places,
	kind int) (kept majority.Found, records []script.VoteRecord, err error) {
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
		if errs = append(errs, reply.err); reply.err == nil && reply.moved {
			answers[i], records = reply.answer, append(records, reply.records...)
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
func (b *Book) copy(ctx context.Context, record script.VoteRecord, from, to *Places) error {
	var was majority.Found
	r := b.New(record.Name, func() time.Duration { return record.Keep },
		func() time.Duration { return was.Known }, nil)
	was, _, err := r.final(ctx, from, script.VoteRead)
	if err == nil && was.Exists {
		_, _, err = r.changeAt(ctx, r.groupAt(to, to.id()), func(kept majority.Found, _ int64) (string, error) {
			if kept.Exists { // another process has copied it, or changed it since
				return kept.Value, nil
			}
			return was.Value, nil
		})
	}
	if errors.Is(err, script.ErrForeignState) {
		b.nodes.Log.Warn("a record cannot be moved", "record", record.Name, "err", err)
		return nil
	}
	return err
}

// announce has a majority of the next places, and all nodes that answer and have forgotten nothing,
// tell where the records are.
func (b *Book) announce(ctx context.Context, to *Places) error {
	found := b.pointers(ctx, pointerKeep, true)
	wrote := b.write(ctx, found, func(p pointer) bool { return p.Whole && to.follows(&p.said.Places) }, to)
	return b.most(to, append(found, wrote...), func(p pointer) bool { return p.Whole && !to.follows(&p.said.Places) })
}
