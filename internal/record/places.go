package record

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/internal/majority"
	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

const (
	// few and more are how many places there are: one where there are fewer nodes than few, more
	// where there are many.
	few, more, many = 3, 5, 8
	// mostDeciding is how many nodes at the most decide where records begin. If two lists differ by
	// one node, each majority of the one has a node in common with each of the other.
	mostDeciding = 8
	// The nodes are asked so often where the records are.
	lookEvery = 20 * time.Second
	// A server that was started again has lost records, too. It votes for those that are not there
	// only when those in use had so much time to be restored.
	restoredAfter = time.Minute
	pointerKeep   = 90 * 24 * time.Hour
)

// HomeSlot is where the nodes keep the records, and say where these are.
var HomeSlot = shard.Slot("records")

var homeTag = shard.Tag(HomeSlot)

// Least is how many nodes there must be for a majority without one of them.
const Least = few

// Places are where the records of a key prefix are kept.
type Places struct {
	// Generation grows whenever they change. The first one is the time of day in milliseconds, so
	// that no places have the generation of others that everybody forgot.
	Generation int64    `json:"generation"` // 0: there are none
	Names      []string `json:"places"`     // of nodes, in order
}

func (p *Places) String() string { return strings.Join(p.Names, ", ") }

// id is what tells these places from others in the names of keys.
func (p *Places) id() string {
	h := fnv.New32a()
	for _, name := range p.Names {
		_, _ = fmt.Fprintf(h, "%d:%s", len(name), name)
	}
	return strconv.FormatInt(p.Generation, 36) + "-" + strconv.FormatUint(uint64(h.Sum32()), 36)
}

func (p *Places) validate() error {
	switch {
	case p.Generation < 1 || p.Generation > shard.MaxEpoch:
		return fmt.Errorf("generation %d", p.Generation)
	case len(p.Names) != 1 && len(p.Names) != few && len(p.Names) != more:
		return fmt.Errorf("%d places", len(p.Names))
	}
	for i, name := range p.Names {
		if name == "" || len(name) > shard.MaxText || slices.Contains(p.Names[:i], name) {
			return fmt.Errorf("place %.80q", name)
		}
	}
	return nil
}

// follows reports whether these are later than others. Of two that began at once one is, for all.
func (p *Places) follows(q *Places) bool {
	return q.Generation < p.Generation || q.Generation == p.Generation && p.id() < q.id()
}

// choose returns which of the nodes are to keep the records: those that do so now go on.
func choose(prefix string, now []string, nodes []shard.Node) []string {
	n := 1
	switch {
	case len(nodes) >= many:
		n = more
	case len(nodes) >= few:
		n = few
	}
	return ranked(prefix, now, n, nodes)
}

// ranked returns n of the nodes, or all, by name: those of now before others, and these in an order
// that all processes have.
func ranked(prefix string, now []string, n int, nodes []shard.Node) []string {
	rank := func(name string) uint64 {
		if slices.Contains(now, name) {
			return 0
		}
		h := fnv.New64a()
		_, _ = h.Write([]byte(prefix + "\x00" + name))
		return h.Sum64()
	}
	var names []string
	for _, nd := range nodes {
		names = append(names, nd.Name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b)) })
	names = names[:min(n, len(names))]
	slices.Sort(names)
	return names
}

// Book is the records of a key prefix as a process knows them. Each node has a pointer that tells
// where they are. It is safe for concurrent use.
type Book struct {
	Belief             // in where the records are
	pointers           // that tell it
	Renamed     func() // is told that servers turned out to be called otherwise; it must not wait
	participant string
	known       atomic.Pointer[Places]
	moved       atomic.Pointer[Places] // the last places met of which one has moved; nil: none
	helping     atomic.Bool            // to finish that move
	silent      map[string]int64       // since when nodes were seen to have forgotten, by the clock's Now
}

// NewBook returns records of which nothing is known yet. Processes are counted by the name
// participant.
func NewBook(nodes *node.Fleet, participant string) *Book {
	b := &Book{pointers: pointers{nodes}, participant: participant, silent: make(map[string]int64)}
	b.known.Store(&Places{})
	b.Belief = Belief{nodes: nodes, every: lookEvery, number: b.number,
		ask:  func(ctx context.Context, whole bool) error { return b.look(ctx, whole && b.number() != 0) },
		soon: func(ctx context.Context) error { return b.Ask(ctx, true) }}
	b.init()
	// To look connects anew where that failed, and so leads here again.
	nodes.Greet(b.greet, func() { b.askedAt.Store(int64(nodes.Clock.Elapsed()) - int64(lookEvery-time.Second)) })
	return b
}

// number is the generation of the places that are known; 0: none are.
func (b *Book) number() int64 { return b.Known().Generation }

// Places returns where the records are. Nodes are asked for it once, and looked after then and now.
func (b *Book) Places(ctx context.Context) (*Places, error) {
	if b.number() != 0 {
		b.Refresh()
	} else if err := b.ConfirmSince(ctx, 0); b.number() == 0 {
		return nil, err
	}
	return b.Known(), nil
}

// Known returns where the records are, as last heard.
func (b *Book) Known() *Places { return b.known.Load() }

// follow notes later places.
func (b *Book) follow(p *Places) {
	for {
		old := b.known.Load()
		if !p.follows(old) {
			return
		}
		if b.known.CompareAndSwap(old, p) {
			b.askedAt.Store(0)
			return
		}
	}
}

// look asks all nodes where the records are, as poll does, and has those know it that do not.
// It belongs to who holds the token. Where no node knows, it begins new records.
func (b *Book) look(ctx context.Context, patient bool) (err error) {
	began := b.nodes.Clock.Elapsed()
	defer func() {
		if err == nil {
			b.Learn(b.number(), began)
		}
	}()
	for range moves {
		found := b.poll(ctx, pointerKeep, patient)
		b.identify(found)
		if !patient && !slices.ContainsFunc(found, pointer.tells) {
			patient = true // who is farther away may know
			continue
		}
		at, err := b.latest(found)
		if err != nil {
			return err
		}
		if at.Generation != 0 {
			b.follow(at)
			if b.spread(ctx, found, at) {
				return nil
			}
			continue
		}
		done, err := b.first(ctx, found)
		if done || err != nil {
			return err
		}
	}
	return errMoving
}

// latest returns the latest places that nodes tell of, or this process knows.
func (b *Book) latest(found []pointer) (*Places, error) {
	at, answered := b.known.Load(), 0
	var errs []error
	for _, p := range found {
		if p.err != nil {
			errs = append(errs, p.err)
			continue
		}
		answered++
		if p.tells() && p.said.follows(at) {
			at = &p.said.Places
		}
	}
	if at.Generation == 0 && 2*answered <= len(found) {
		return at, fewer(b.nodes.Roster().Names(), errs)
	}
	return at, nil
}

// identify notes who the nodes say that they are. Of two that are one server the first is used.
func (b *Book) identify(found []pointer) {
	news := false
	for i := range found {
		p := &found[i]
		if p.err != nil || p.said == nil {
			continue
		}
		var new bool
		new, p.copied = b.nodes.Identify(p.node, node.Server{Run: p.Run, Names: p.said.Called, Whole: p.Whole,
			Up: p.Uptime})
		if !new {
			continue
		}
		news = true
		if _, used := b.nodes.Roster().ID(p.node); !used {
			b.nodes.Log.Warn("a node is the same server as another one of the Config, and used once", "node", p.node)
		}
	}
	if news && b.Renamed != nil {
		b.Renamed()
	}
}

// greet asks a server that was connected who it is. One that says nothing is called as this process
// calls it.
func (b *Book) greet(name string, e *script.Endpoint) error {
	ctx, cancel := context.WithTimeout(b.nodes.Ctx, b.nodes.Patience())
	defer cancel()
	p := b.heard(ctx, name, e, script.PlacesRequest{})
	if p.err == nil {
		b.identify([]pointer{p})
	} else if !node.IsAnswer(p.err) && !errors.Is(p.err, ErrUnreadable) {
		return fmt.Errorf("it does not say who it is: %w", p.err)
	}
	return nil
}

// first begins records of a key prefix that no node knows. A majority of nodes decides between
// those who do that at once, as it decides all else; here a place with no value votes. It is not
// done if others have begun meanwhile.
func (b *Book) first(ctx context.Context, found []pointer) (done bool, err error) {
	b.identify(b.write(ctx, found, func(p pointer) bool { return p.said == nil }, &Places{}))
	open := b.nodes.Roster().Open()
	generation := b.nodes.Clock.At(b.nodes.Clock.Now()).UnixMilli()
	p := &Places{Generation: max(generation, 1), Names: choose(b.nodes.Prefix, nil, open)}
	deciding := ranked(b.nodes.Prefix, nil, mostDeciding, b.nodes.Roster().All())
	r := b.New("first", func() time.Duration { return pointerKeep }, nil, nil)
	s := r.groupAt(&Places{Names: deciding}, "")
	s.alone = true
	if p, err = r.decide(ctx, s, p); err != nil {
		return false, err
	}
	silent := func(w pointer) bool { return w.said == nil || w.said.Generation == 0 }
	found = b.poll(ctx, pointerKeep, false)
	wrote := b.write(ctx, found, silent, p)
	for _, w := range append(slices.DeleteFunc(found, silent), wrote...) {
		if w.err == nil && (w.said == nil || w.said.id() != p.id()) {
			return false, nil
		}
	}
	b.follow(p)
	return true, nil
}

// decide has the places of a group choose which places come next: those proposed, nil for none, or
// those that others have.
func (r *Record) decide(ctx context.Context, s *group, next *Places) (chosen *Places, err error) {
	_, _, err = r.changeAt(ctx, s, func(kept majority.Found, _ int64) (value string, err error) {
		if chosen = next; kept.Exists {
			chosen, err = decodePlaces(kept.Value)
			return kept.Value, err
		}
		if next == nil {
			return "", errMoving
		}
		return next.encode(), nil
	})
	return chosen, err
}

// spread has the nodes know where the records are. One that forgot hears of it when the records in
// use were restored there, unless more than half of all answer and none of them knows. It is false
// if one tells of later places by now, or of others although none knew.
func (b *Book) spread(ctx context.Context, found []pointer, at *Places) bool {
	silent, know, now := 0, 0, b.nodes.Clock.Now()
	for _, p := range found {
		if p.err != nil {
			continue
		}
		if p.tells() {
			know++
		} else {
			silent++
		}
		if _, seen := b.silent[p.node]; p.tells() && p.Whole {
			delete(b.silent, p.node)
		} else if !seen {
			b.silent[p.node] = now
		}
	}
	nobody := know == 0 && 2*silent > len(found)
	left := b.moved.Load() // places that have moved cannot be restored
	stays := left == nil || left.id() != at.id()
	wrote := b.write(ctx, found, func(p pointer) bool {
		knows := p.said != nil && p.said.id() == at.id() && p.Whole && slices.Contains(p.said.Called, b.called(p))
		since, forgot := b.silent[p.node]
		restored := p.Uptime > restoredAfter && (!forgot || now-since > int64(restoredAfter))
		return !knows && (nobody || restored) && (stays || !slices.Contains(at.Names, b.called(p)))
	}, at)
	b.identify(wrote)
	return !slices.ContainsFunc(wrote, func(p pointer) bool {
		return p.said != nil && (p.said.follows(at) || nobody && p.said.id() != at.id())
	})
}

func (p *Places) encode() string {
	text, _ := json.Marshal(p) // it is plain data
	return string(text)
}

func decodePlaces(text string) (*Places, error) {
	var p Places
	err := json.Unmarshal([]byte(text), &p)
	if err == nil {
		err = p.validate()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: where the records are: %w", ErrUnreadable, err)
	}
	return &p, nil
}
