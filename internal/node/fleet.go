package node

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/telemetry"
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
	// Spawn runs a task in the background. It reports false if Ctx has ended.
	Spawn func(task func(context.Context)) bool
}

// Fleet is the nodes of a process. It is safe for concurrent use.
type Fleet struct {
	Settings
	roster    atomic.Pointer[Roster]
	rostering sync.Mutex // held while the roster is replaced
	closed    bool
	fastest   fastest // of all nodes

	watching    sync.Once     // begins when the first node is connected
	reconnected chan struct{} // holds a token when a node was connected anew
}

// Roster is the nodes at one time. It never changes; Replace makes a new one.
type Roster struct {
	specs  []Spec           // as configured
	byName map[string]*Node // these, and those taken out that a layout still names
}

// NewFleet returns nodes that are connected when they are first used.
func NewFleet(settings Settings, specs []Spec) *Fleet {
	f := &Fleet{Settings: settings, reconnected: make(chan struct{}, 1)}
	r := &Roster{specs: specs, byName: make(map[string]*Node, len(specs))}
	for _, s := range specs {
		r.byName[s.Name] = f.newNode(s)
	}
	f.roster.Store(r)
	return f
}

// Roster returns the nodes as they are now.
func (f *Fleet) Roster() *Roster { return f.roster.Load() }

// Node returns the node of that name, nil if there is none.
func (f *Fleet) Node(name string) *Node { return f.roster.Load().byName[name] }

// Node returns the node of that name, nil if there is none.
func (r *Roster) Node(name string) *Node { return r.byName[name] }

// Each calls use with every configured node, until that is false.
func (r *Roster) Each(use func(*Node) bool) {
	for i := range r.specs {
		if !use(r.byName[r.specs[i].Name]) {
			return
		}
	}
}

// All are the configured nodes, for placement.
func (r *Roster) All() []shard.Node { return placeable(r.specs) }

// Open are the nodes that new shards and records are placed on: all that do not
// drain, or all if every one of them does.
func (r *Roster) Open() []shard.Node {
	open := slices.DeleteFunc(slices.Clone(r.specs), func(s Spec) bool { return s.Drain })
	if len(open) == 0 {
		return r.All()
	}
	return placeable(open)
}

// Keeps reports whether what is on the node may stay there.
func (r *Roster) Keeps(name string) bool {
	return slices.ContainsFunc(r.Open(), func(n shard.Node) bool { return n.Name == name })
}

func placeable(specs []Spec) []shard.Node {
	placed := make([]shard.Node, len(specs))
	for i, s := range specs {
		placed[i] = shard.Node{Name: s.Name, Weight: s.Weight}
	}
	return placed
}

// Replace makes a new roster, and returns the nodes that have to be connected. adopt is called when
// it is in force. Then those that were taken out and are not in use are closed. ok is false if the
// fleet is closed.
func (f *Fleet) Replace(specs []Spec, adopt func(), inUse func() map[string]bool) (added []*Node, ok bool) {
	f.rostering.Lock()
	defer f.rostering.Unlock()
	if f.closed {
		return nil, false
	}
	next := &Roster{specs: specs, byName: maps.Clone(f.roster.Load().byName)}
	var moved []*Node
	for _, s := range specs {
		if old := next.byName[s.Name]; old != nil {
			if old.reaches(s) {
				continue
			}
			moved = append(moved, old)
		}
		made := f.newNode(s)
		next.byName[s.Name] = made
		added = append(added, made)
	}
	f.roster.Store(next)
	adopt()
	f.dismiss(moved)
	f.retire(inUse())
	return added, true
}

// Retire closes in the background the nodes that were taken out and are not in use any more.
func (f *Fleet) Retire(inUse func() map[string]bool) {
	if r := f.roster.Load(); len(r.byName) == len(r.specs) {
		return // none was taken out
	}
	f.Spawn(func(context.Context) {
		f.rostering.Lock()
		defer f.rostering.Unlock()
		f.retire(inUse())
	})
}

// retire is what Retire does. f.rostering is held.
func (f *Fleet) retire(used map[string]bool) {
	if f.closed {
		return // Close closes them all
	}
	old := f.roster.Load()
	next := &Roster{specs: old.specs, byName: maps.Clone(old.byName)}
	var gone []*Node
	for _, name := range slices.Sorted(maps.Keys(old.byName)) {
		n := old.byName[name]
		listed := slices.ContainsFunc(old.specs, func(s Spec) bool { return s.Name == name })
		if !used[name] && !listed {
			delete(next.byName, name)
			gone = append(gone, n)
		}
	}
	if len(gone) == 0 {
		return
	}
	f.roster.Store(next)
	f.dismiss(gone)
}

// dismiss closes nodes when the calls that were sent to them have ended.
func (f *Fleet) dismiss(nodes []*Node) {
	for _, n := range nodes {
		f.Log.Info("node was taken out", "node", n.Name)
		f.closeLater(n.Close)
	}
}

// closeLater ends a connection when the calls that were sent on it have ended.
func (f *Fleet) closeLater(end func()) {
	if !f.Spawn(func(ctx context.Context) {
		clock.Sleep(ctx, 2*f.CallTimeout+time.Second)
		end()
	}) {
		end()
	}
}

// Close closes every node.
func (f *Fleet) Close() {
	f.rostering.Lock() // from here on the roster stays what it is
	f.closed = true
	nodes := f.roster.Load().byName
	f.rostering.Unlock()
	var wg sync.WaitGroup
	for _, n := range nodes {
		wg.Go(n.Close) // of a node that does not answer it takes a second
	}
	wg.Wait()
}
