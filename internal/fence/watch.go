package fence

import (
	"context"
	"slices"
	"time"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/majority"
)

const (
	// calmAfter is after how long without a fall a node counts as steady again.
	calmAfter = 10 * time.Minute
	// mostDoublings bounds how much longer a node has to answer that falls again and again.
	mostDoublings = 6
	// othersSay is what it counts for that others cannot reach a node that this process can: they
	// would put it out again at once.
	othersSay = 3
)

// watched is what a process has seen of a node.
type watched struct {
	out     bool
	fell    int64 // when it was put out last
	falls   int   // how often lately
	answers int64 // since when it answers although it is out; 0: it does not
}

// tell notes what became of the nodes.
func (f *Fence) tell(old *knowledge, m majority.Membership) {
	now := f.env.Nodes.Clock.Now()
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
			if nd := f.env.Nodes.Node(n.Name); nd != nil && nd.SilentFor() == 0 {
				w.falls += othersSay
			}
			f.log.Warn("node is put out; what it has is taken over", "node", n.Name, "generation", m.Generation)
		case !n.Out && w.out && old != nil:
			f.log.Info("node is in again", "node", n.Name, "generation", m.Generation)
		}
		w.out = n.Out
	}
}

// watch puts nodes out that are silent, and has those in again that answer. It belongs to who holds
// the token.
func (f *Fence) watch(ctx context.Context) {
	k := f.known.Load()
	if k == nil || f.Until(f.env.Nodes.Clock.Elapsed()) == 0 {
		return
	}
	for _, n := range k.membership.Nodes {
		switch {
		case n.Out && f.steady(ctx, n.Name):
			f.move(ctx, n.Name, majority.Membership.Add)
		case !n.Out && f.silent(ctx, n.Name):
			f.move(ctx, n.Name, majority.Membership.PutOut)
		}
	}
}

// silent reports whether a node has not answered this process for so long that it is to go out.
func (f *Fence) silent(ctx context.Context, name string) bool {
	n := f.env.Nodes.Node(name)
	return n != nil && n.SilentFor() >= f.env.After && !f.answers(ctx, name)
}

// steady reports whether a node that is out has answered for long enough to be in again: the longer
// the more often it fell.
func (f *Fence) steady(ctx context.Context, name string) bool {
	w := f.nodes[name]
	if w == nil || f.env.Nodes.Node(name) == nil {
		return false
	}
	now := f.env.Nodes.Clock.Now()
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
func (f *Fence) Admit(ctx context.Context, names ...string) error {
	if m, _ := f.Membership(); !lacks(m, names) {
		return nil
	}
	select {
	case f.token <- struct{}{}:
		defer func() { <-f.token }()
	case <-ctx.Done():
		return clock.Ended(ctx)
	}
	_, err := f.change(ctx, func(found majority.Found) (majority.Membership, error) {
		m, err := f.begin(found)
		held := heldIf(m, found)
		for _, name := range names {
			if err == nil && lacks(m, []string{name}) {
				m, err = m.Add(name, held)
				held = 0 // counted
			}
		}
		return m, err
	})
	return err
}

// heldIf is for how long a membership was held: 0 unless it is the one that was found.
func heldIf(m majority.Membership, found majority.Found) time.Duration {
	if text, err := m.Encode(); err != nil || text != found.Value {
		return 0
	}
	return found.Held
}

// lacks reports whether a membership does not know one of the nodes.
func lacks(m majority.Membership, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		_, known := m.Node(name)
		return !known
	})
}

// answers reports whether a node carries out what takes need: one that can only be read is away.
func (f *Fence) answers(ctx context.Context, name string) bool {
	ctx, cancel := context.WithTimeout(ctx, max(f.env.Nodes.CallTimeout, placePatience))
	defer cancel()
	n := f.env.Nodes.Node(name)
	return n != nil && n.Serves(ctx, f.slot) == nil
}

// move changes how a node stands, unless somebody has done so.
func (f *Fence) move(ctx context.Context, name string,
	how func(majority.Membership, string, time.Duration) (majority.Membership, error)) {
	before := f.Generation()
	_, err := f.change(ctx, func(found majority.Found) (majority.Membership, error) {
		m, err := f.begin(found)
		if err != nil || m.Generation != before {
			return m, err // it is confirmed as it is: this process has to look again
		}
		return how(m, name, found.Held)
	})
	if err != nil {
		f.log.Warn("the membership could not be changed", "node", name, "err", err)
	}
}
