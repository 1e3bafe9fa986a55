package record

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/internal/telemetry"
	"github.com/shardlimit/shardlimit/script"
)

// said is the text of a node's pointer: where the records are, and what the node is called there.
type said struct {
	Places
	// Under these names the records know the node, first the one by which it is placed. A node that
	// forgot its name may get another one, and have both.
	Called []string `json:"called"`
}

// mostNames bounds under how many names a node is known.
const mostNames = 8

// pointer is what a node says of where the records are, and of itself.
type pointer struct {
	script.PlacesReply
	node   string // as it is called in this process
	said   *said  // nil if it says nothing
	copied bool   // its names are another server's
	err    error
}

// tells reports whether the node says where records are.
func (p pointer) tells() bool { return p.err == nil && p.said != nil && p.said.Generation > 0 }

// pointers are those of all nodes, as a process reads and writes them.
type pointers struct{ fleet *node.Fleet }

// called is what a node is to be called.
func (ps pointers) called(p pointer) string {
	id, _ := ps.fleet.Roster().ID(p.node)
	return cmp.Or(id, p.node)
}

// poll reads what all nodes say, and has that live on for so long; 0: as it does. Unless it is
// patient, who answers much later than a majority is not waited for.
func (ps pointers) poll(ctx context.Context, keep time.Duration, patient bool) []pointer {
	nodes := ps.fleet.Roster().Names()
	found := make([]pointer, len(nodes))
	for i, name := range nodes {
		found[i] = pointer{node: name, err: fmt.Errorf("node %s: it answers later than others", name)}
	}
	answered := 0
	gather(ctx, len(nodes), func(i int) pointer {
		return ps.point(ctx, nodes[i], script.PlacesRequest{Keep: keep})
	}, func(i int, p pointer) step {
		if found[i] = p; p.err == nil {
			answered++
		}
		if !patient && 2*answered > len(nodes) {
			return hurry
		}
		return wait
	})
	return found
}

// write writes a text to the nodes that answered and are to have it, if each still says what it
// said.
func (ps pointers) write(ctx context.Context, found []pointer, to func(pointer) bool, at *Places) []pointer {
	found = slices.DeleteFunc(slices.Clone(found), func(p pointer) bool { return p.err != nil || !to(p) })
	wrote := make([]pointer, 0, len(found))
	gather(ctx, len(found), func(i int) pointer {
		p := &found[i]
		return ps.point(ctx, p.node, script.PlacesRequest{Text: ps.text(*p, at), Expect: p.Text, Keep: pointerKeep})
	}, func(_ int, got pointer) step {
		wrote = append(wrote, got)
		return wait
	})
	return wrote
}

// point makes one call for the pointer of a node.
func (ps pointers) point(ctx context.Context, name string, req script.PlacesRequest) (got pointer) {
	about := telemetry.Call{Operation: telemetry.Locate, Shard: homeTag}
	err := ps.call(ctx, ps.fleet.Roster().Listed(name), about,
		func(ctx context.Context, e *script.Endpoint) error {
			got = ps.heard(ctx, name, e, req)
			if errors.Is(got.err, ErrUnreadable) { // the node is well
				return nil
			}
			return got.err
		})
	if got.node, got.err = name, cmp.Or(err, got.err); got.err != nil {
		got.err = fmt.Errorf("node %s: %w", name, got.err)
	}
	return got
}

// call makes a call about records to a node. One that is away is asked only when it is time to find
// out whether it is back.
func (ps pointers) call(ctx context.Context, n *node.Node, about telemetry.Call,
	do func(context.Context, *script.Endpoint) error) error {
	if n == nil {
		return node.ErrStranger
	}
	ctx, cancel := context.WithTimeout(ctx, max(ps.fleet.CallTimeout, patience))
	defer cancel()
	return n.UnlessAway(ctx, HomeSlot, about, do)
}

func (ps pointers) heard(ctx context.Context, name string, e *script.Endpoint, req script.PlacesRequest) pointer {
	got := pointer{node: name}
	if got.PlacesReply, got.err = e.Places(ctx, script.PlacesKey(ps.fleet.Prefix, homeTag), req); got.err != nil {
		return got
	}
	ps.fleet.Roster().Listed(name).ServerClock(HomeSlot).Learn(ps.fleet.Clock.Elapsed(), got.Now)
	if got.Text != "" {
		got.said, got.err = decodeSaid(got.Text)
	}
	return got
}

// text is what a node is to say.
func (ps pointers) text(p pointer, at *Places) string {
	names := []string{}
	if p.said != nil && !p.copied {
		names = p.said.Called
	}
	if id := ps.called(p); !slices.Contains(names, id) {
		names = append(slices.Clone(names), id)
	}
	if more := len(names) - mostNames; more > 0 {
		names = append(names[:1:1], names[1+more:]...)
	}
	text, _ := json.Marshal(said{*at, names}) // it is plain data
	return string(text)
}

func decodeSaid(text string) (*said, error) {
	var s said
	err := json.Unmarshal([]byte(text), &s)
	if err == nil && (s.Generation != 0 || len(s.Names) > 0) { // else it only says what it is called
		err = s.validate()
	}
	if err == nil && (len(s.Called) < 1 || len(s.Called) > mostNames || slices.Contains(s.Called, "")) {
		err = fmt.Errorf("names of a node: %.80q", s.Called)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: where the records are: %w", ErrUnreadable, err)
	}
	return &s, nil
}
