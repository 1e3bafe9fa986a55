package fence

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/shardlimit/shardlimit/internal/majority"
	"github.com/shardlimit/shardlimit/internal/record"
	"github.com/shardlimit/shardlimit/shard"
)

// heard takes in what a majority has, by a read or change that began then.
func (f *Fence) heard(_ context.Context, got record.Reading, began int64) error {
	if !got.Exists {
		return record.ErrUnsettled
	}
	m, err := majority.DecodeMembership(got.Value)
	if err != nil {
		return err
	}
	if m.Generation < max(f.Generation(), f.least) {
		return record.ErrUnsettled // the places forgot it
	}
	old := f.known.Load()
	k := &knowledge{membership: m, held: got.Held, since: f.env.Nodes.Clock.Now(),
		lives: make(map[string]string, len(m.Nodes))}
	if old.membership.Generation == m.Generation {
		k.since = old.since
	}
	for _, n := range m.Nodes {
		if !n.Out {
			k.lives[n.Name] = strconv.FormatInt(n.Since, 36)
		}
	}
	f.known.Store(k)
	f.Learn(m.Generation, began)
	if old.membership.Generation != m.Generation {
		f.tell(m)
		if f.env.Changed != nil {
			f.env.Changed()
		}
	}
	return nil
}

// next is what makes the membership that goes on.
func (f *Fence) next(context.Context) (func(record.Reading) (string, error), error) {
	return f.then(func(m majority.Membership, _ time.Duration) (majority.Membership, error) { return m, nil }), nil
}

// then makes what follows the membership that goes on, which was held for so long.
func (f *Fence) then(how func(m majority.Membership, held time.Duration) (majority.Membership,
	error)) func(record.Reading) (string, error) {
	return func(found record.Reading) (string, error) {
		m, held, err := f.begin(found)
		if err == nil {
			m, err = how(m, held)
		}
		if err != nil {
			return "", err
		}
		return m.Encode()
	}
}

// begin is the membership that goes on: what was found, or what this process knows if that is
// later, or, if there is none, one in which all nodes of this process are in. Only what was found
// was held for a time.
func (f *Fence) begin(found record.Reading) (m majority.Membership, held time.Duration, err error) {
	if found.Exists {
		if m, err = majority.DecodeMembership(found.Value); err != nil {
			return m, 0, err
		}
	}
	if known := f.known.Load().membership; known.Generation > m.Generation {
		return known.Outlast(), 0, nil
	}
	if m.Generation < f.least {
		m, err = f.anew()
		return m, 0, err
	}
	return m, found.Held, nil
}

// anew is a membership that follows all that this process has heard of, with all of its nodes in.
func (f *Fence) anew() (majority.Membership, error) {
	var names []string
	for _, n := range f.env.Nodes.Roster().All() {
		names = append(names, n.Name)
	}
	for _, p := range f.env.Book.Nodes() {
		if !slices.Contains(names, p) {
			names = append(names, p)
		}
	}
	// By the time of day, so that no generation, and no life, comes twice although nobody
	// remembers.
	generation := max(f.least, f.env.Nodes.Clock.At(f.env.Nodes.Clock.Now()).UnixMilli())
	return majority.NewMembership(generation, names...)
}

// Follow confirms a generation that is no earlier than those in which lives of these nodes began.
// If every place has forgotten them, all nodes are in under one that follows: their lives are
// others then.
func (f *Fence) Follow(ctx context.Context, nodes []shard.Node) error {
	generation := int64(0)
	for _, n := range nodes {
		generation = max(generation, began(n.Life))
	}
	if f.Generation() >= generation {
		return nil
	}
	if err := f.ConfirmSince(ctx, f.env.Nodes.Clock.Elapsed()); err != nil || f.Generation() >= generation {
		return err
	}
	if err := f.Begin(ctx); err != nil {
		return err
	}
	defer f.End()
	f.least = generation + 1
	err := f.Exchange(ctx, false)
	if err == nil {
		f.log.Warn("the membership of the nodes was lost; it began anew", "generation", f.Generation())
	}
	return err
}
