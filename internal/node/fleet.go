package node

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/telemetry"
	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

// Settings are what the nodes of a process share.
type Settings struct {
	Ctx         context.Context // ends when the process needs no node any more
	Clock       *clock.Clock
	Log         *slog.Logger
	Telemetry   *telemetry.Telemetry
	Prefix      string        // of every key
	CallTimeout time.Duration // of the longest call
	// Mistake is the error that tells of an answer of a node that waiting does not change.
	Mistake func(node string, cause error, remedy string) error
	// Back is told that a node answers again.
	Back func()
	// Spawn runs a task in the background. It reports false if Ctx has ended.
	Spawn func(task func(context.Context)) bool

	// See Fleet.Greet; nil: nobody asks a server who it is.
	greet       func(name string, e *script.Endpoint) error
	reconnected func()
}

// Patience is for how long one exchange about records may go on: it is rare, and may have to
// connect first.
func (s *Settings) Patience() time.Duration { return max(2*time.Second, s.CallTimeout) }

// Fleet is the nodes of a process. It is safe for concurrent use.
type Fleet struct {
	Settings
	roster      atomic.Pointer[Roster]
	identifying sync.Mutex // held while the roster is replaced
}

// Roster is the configured nodes, and what is known of their servers at one time. It never changes;
// Identify makes a new one.
type Roster struct {
	specs  []Spec           // as configured
	byName map[string]*Node // likewise
	known  map[string]*Node // by the names under which the records know servers
	placed map[*Node]placed // those whose servers were asked
}

// placed is the name by which a node is placed, and what its server said of itself.
type placed struct {
	id string
	Server
}

// NewFleet returns nodes that are connected when they are first used.
func NewFleet(settings Settings, specs []Spec) *Fleet {
	f := &Fleet{Settings: settings}
	r := &Roster{specs: specs, byName: make(map[string]*Node, len(specs)), known: make(map[string]*Node),
		placed: make(map[*Node]placed)}
	for _, s := range specs {
		r.byName[s.Name] = New(s, &f.Settings)
	}
	f.roster.Store(r)
	return f
}

// Roster returns the nodes as they are now.
func (f *Fleet) Roster() *Roster { return f.roster.Load() }

// Node returns the node that the records know by a name, nil if there is none.
func (f *Fleet) Node(name string) *Node { return f.roster.Load().Node(name) }

// Node returns the node that the records know by a name, nil if there is none. A server that was
// not asked yet is known as it is called here.
func (r *Roster) Node(name string) *Node {
	if n := r.known[name]; n != nil {
		return n
	}
	if n := r.byName[name]; n != nil && r.placed[n].id == "" {
		return n
	}
	return nil
}

// ID is the name by which a node of the Config is placed; "" if its server was not asked yet. It is
// false for one that is the same server as another.
func (r *Roster) ID(name string) (id string, ok bool) {
	n := r.byName[name]
	id = r.placed[n].id
	return id, n != nil && (id == "" || r.known[id] == n)
}

// Listed returns the configured node of that name.
func (r *Roster) Listed(name string) *Node { return r.byName[name] }

// Names are the configured nodes, as they are called here.
func (r *Roster) Names() (names []string) {
	for i := range r.specs {
		names = append(names, r.specs[i].Name)
	}
	return names
}

// All are the configured nodes, for placement.
func (r *Roster) All() []shard.Node { return r.placeable(r.specs) }

// Open are the nodes that new shards and records are placed on: all that do not
// drain, or all if every one of them does.
func (r *Roster) Open() []shard.Node {
	open := slices.DeleteFunc(slices.Clone(r.specs), func(s Spec) bool { return s.Drain })
	if len(open) == 0 {
		return r.All()
	}
	return r.placeable(open)
}

func (r *Roster) placeable(specs []Spec) (placed []shard.Node) {
	for _, s := range specs {
		if id, ok := r.ID(s.Name); ok {
			placed = append(placed, shard.Node{Name: cmp.Or(id, s.Name), Weight: s.Weight})
		}
	}
	return placed
}

// next is a roster that follows, as it is.
func (r *Roster) next() *Roster {
	return &Roster{specs: r.specs, byName: r.byName, known: maps.Clone(r.known), placed: maps.Clone(r.placed)}
}

// Server is what a server says of itself.
type Server struct {
	Run   string   // which run it is in
	Names []string // under which the records know it, the one by which it is placed first
	Whole bool     // it was given them in this run
	Up    time.Duration
	at    int64 // when it said so, on the clock of the process
}

// An uptime may be so much off: it is a difference of whole seconds.
const upSlack = 2 * time.Second

// Identify notes what the server of a configured node says of itself. Of two servers that have a
// name it stays with the one that was given it in its present run: the other has it from a
// snapshot, and is placed as this process calls it. It reports whether anything is new, and whether
// that is so.
func (f *Fleet) Identify(name string, s Server) (news, copied bool) {
	f.identifying.Lock()
	defer f.identifying.Unlock()
	next := f.roster.Load().next()
	n := next.byName[name]
	before, had := next.placed[n]
	id, names := cmp.Or(before.id, s.Names[0]), s.Names
	s.at = f.Clock.Now()
	other := next.known[s.Names[0]]
	// If it ran already when the one that was here was heard last, the address leads elsewhere now.
	elsewhere := had && before.Run != s.Run && s.Up > time.Duration(s.at-before.at)+upSlack
	if elsewhere || other != nil && other != n && next.placed[other].Run == s.Run { // they are one server
		next.forget(n)
		id = s.Names[0]
	}
	if !s.Whole && s.Names[0] != name && next.byName[s.Names[0]] != nil {
		copied = true // another node of the Config is called so
	}
	if other = next.known[id]; other != nil && other != n && next.placed[other].Run != s.Run {
		if copied = copied || !s.Whole || next.placed[other].Whole; !copied {
			next.placed[other] = placed{other.Name, next.placed[other].Server}
			next.known[other.Name], next.known[id] = other, n
		}
	}
	if copied {
		id, names = name, nil
	}
	news = next.placed[n].id != id
	for _, known := range append([]string{id}, names...) {
		if next.known[known] == nil {
			next.known[known], news = n, true
		}
	}
	next.placed[n] = placed{id, s}
	f.roster.Store(next)
	return news, copied
}

// Greet has greet ask each server that is connected who it is, before it is used, and reconnected
// called when a connection was made anew. It comes before anything is connected.
func (f *Fleet) Greet(greet func(name string, e *script.Endpoint) error, reconnected func()) {
	f.greet, f.reconnected = greet, reconnected
}

// forget forgets what the records call a node.
func (r *Roster) forget(n *Node) {
	delete(r.placed, n)
	maps.DeleteFunc(r.known, func(_ string, known *Node) bool { return known == n })
}

// Close closes every node.
func (f *Fleet) Close() {
	var wg sync.WaitGroup
	for _, n := range f.roster.Load().byName {
		wg.Go(n.Close) // of a node that does not answer it takes a second
	}
	wg.Wait()
}
