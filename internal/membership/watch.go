package membership

import (
	"context"
	"time"

	"github.com/shardlimit/shardlimit/internal/majority"
	"github.com/shardlimit/shardlimit/internal/record"
	"github.com/shardlimit/shardlimit/shard"
)

const (
	// calmAfter is after how long without a fall a node counts as steady again.
	calmAfter = 10 * time.Minute
	// mostDoublings bounds how much longer a node has to answer that falls again and again.
	mostDoublings = 6
)

// watched is what a process has seen of a node.
type watched struct {
	out     bool
	fell    int64 // when it was put out last
	falls   int   // how often lately
	answers int64 // since when it answers although it is out; 0: it does not
	missed  bool
	reached int64 // when others said last that they can reach it; 0: never
}

// tell notes what became of the nodes.
func (f *Fence) tell(m majority.Membership) {
	now, log := f.env.Nodes.Clock.Now(), f.env.Nodes.Log
	for _, n := range m.Nodes {
		w := f.nodes[n.Name]
		if w == nil {
			w = &watched{}
			f.nodes[n.Name] = w
		}
		switch {
		case n.Out && !w.out:
			if now-w.fell > int64(calmAfter) {
				w.falls = 0
			}
			w.fell, w.falls, w.answers = now, w.falls+1, 0
			log.Warn("node is put out; what it has is taken over", "node", n.Name, "generation", m.Generation)
		case !n.Out && w.out:
			log.Info("node is in again", "node", n.Name, "generation", m.Generation)
		}
		if w.missed && !n.Missed && !n.Out {
			w.reached = now
		}
		w.out, w.missed = n.Out, n.Missed
	}
}

// Suspicion is shared: what one process cannot reach is missed by all, for as long as none says
// that it can. So processes that live for seconds put out a node as well, and those that do not
// list it.
const (
	// missAfter is for how long a node must be silent to be missed.
	missAfter = 500 * time.Millisecond
	// contradictedFor is for how long a process says nothing more of a node that others can reach.
	contradictedFor = 10 * time.Minute
)

// watch puts nodes out that are silent, and has those in again that answer. It belongs to who holds
// the token.
func (f *Fence) watch(ctx context.Context) {
	if f.Until(f.env.Nodes.Clock.Elapsed()) == 0 {
		return
	}
	k := f.known.Load()
	for _, n := range k.membership.Nodes {
		w, listed, now := f.nodes[n.Name], f.env.Nodes.Node(n.Name), f.env.Nodes.Clock.Now()
		// A node that it does not list it never reaches; who lists it has time to say that it is
		// there.
		silent, after := missAfter, max(f.env.After, 3*confirmEvery)
		if listed != nil {
			silent, after = listed.SilentFor(), f.env.After
		}
		away := max(silent, k.membership.OutFor(n.Name, k.held)) >= after
		contradicted := w.reached != 0 && now-w.reached < int64(contradictedFor)
		switch {
		case n.Out:
			if listed != nil && f.steady(ctx, n.Name, w, now) {
				f.move(ctx, func(m members, held time.Duration) (members, error) {
					return m.Add(n.Name, held)
				})
			}
		case silent == 0 && !n.Missed || silent > 0 && !away && (n.Missed || silent < missAfter || contradicted):
			// nothing is new
		case f.answers(ctx, n.Name) != (silent == 0):
			// it does not answer either, or does after all, when it is asked now
		case away && silent > 0:
			f.move(ctx, func(m members, held time.Duration) (members, error) {
				return m.PutOut(n.Name, held, f.env.Book.Known().Names)
			})
		default:
			f.move(ctx, func(m members, held time.Duration) (members, error) {
				return m.Miss(n.Name, held, silent > 0)
			})
		}
	}
}

// steady reports whether a node that is out has answered for long enough to be in again: the longer
// the more often it fell.
func (f *Fence) steady(ctx context.Context, name string, w *watched, now int64) bool {
	switch {
	case !f.answers(ctx, name):
		w.answers = 0
	case w.answers == 0:
		w.answers = now
	default:
		return now-w.answers >= int64(f.env.After)<<min(max(w.falls-1, 0), mostDoublings)
	}
	return false
}

// Admit has nodes in that the membership does not know, once it is confirmed.
func (f *Fence) Admit(ctx context.Context, nodes []shard.Node) error {
	if len(lacking(f.known.Load().membership, nodes)) == 0 {
		return nil
	}
	if err := f.Begin(ctx); err != nil {
		return err
	}
	defer f.End()
	_, err := f.Change(ctx, f.then(func(m members, held time.Duration) (_ members, err error) {
		for _, name := range lacking(m, nodes) {
			if m, err = m.Add(name, held); err != nil {
				return m, err
			}
			held = 0 // counted
		}
		return m, nil
	}))
	return err
}

// lacking are the nodes that a membership does not know.
func lacking(m majority.Membership, nodes []shard.Node) (names []string) {
	for _, n := range nodes {
		if _, known := m.Node(n.Name); !known {
			names = append(names, n.Name)
		}
	}
	return names
}

// answers reports whether a node carries out what takes need: one that can only be read is away.
func (f *Fence) answers(ctx context.Context, name string) bool {
	ctx, cancel := context.WithTimeout(ctx, max(f.env.Nodes.CallTimeout, 250*time.Millisecond))
	defer cancel()
	n := f.env.Nodes.Node(name)
	return n != nil && n.Serves(ctx, record.HomeSlot) == nil
}

// move changes how a node stands, unless somebody has done so.
func (f *Fence) move(ctx context.Context, how change) {
	before := f.Generation()
	if _, err := f.Change(ctx, f.then(func(m members, held time.Duration) (members, error) {
		if m.Generation != before {
			return m, nil // it is confirmed as it is: this process has to look again
		}
		return how(m, held)
	})); err != nil {
		f.env.Nodes.Log.Warn("the membership could not be changed", "err", err)
	}
}
