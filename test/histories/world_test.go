package histories

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/history"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/limittest/redissim"
)

// world is a plan that is being played, in the time of a test bubble.
type world struct {
	t     *testing.T
	plan  *plan
	begun time.Time
	nodes []*worldNode
	procs []*process
	limit []*watched
	wg    sync.WaitGroup // of what goes on aside
	stat  stats

	stepped   map[*worldNode]bool // those whose clocks made a step
	forgetful map[*worldNode]bool // those that lost records
	flushed   bool                // one of them without a restart
	shrunk    bool                // there were fewer nodes than three for the records

	mu       sync.Mutex
	troubled bool // something was wrong with a node or on the way to one
	findings []finding
	trace    []sent
	slots    []held
}

// mostScripts is after how many script calls a history is over, unless its plan says more.
const mostScripts = 400

// over reports whether the history has made so many that it ends.
func (w *world) over() bool { return w.scripts() >= max(mostScripts, w.plan.Scripts) }

// finding is something that must not be.
type finding struct{ Kind, Text string }

type worldNode struct {
	server    *redissim.Server
	downUntil int64
	image     redissim.Image
	retired   bool // it was taken out, and stopped
}

// process is one that uses the limits: a Client, and another one after it was killed.
type process struct {
	drains    []int // nodes that it lists as draining
	world     *world
	number    int
	plan      processPlan
	life      int
	ended     chan struct{} // closed when the process is killed
	client    *shardlimit.Client
	has       map[string]opened // by name
	suspended int64             // until
	links     []linkState
	kept      []kept // what may be given back
	asked     int64  // when it last asked for permits
	woke      int64  // when it first did after a rest of a minute
}

// opened is a limit that a process has opened.
type opened struct {
	limit  *shardlimit.Limiter // of a family: on its key
	family *shardlimit.Family
	brings *shardlimit.Limit // with which it comes for the key; nil: with none
}

// kept is what a call got.
type kept struct {
	on       *watched
	op       int
	decision shardlimit.Decision
	from     *shardlimit.Limiter
}

// linkState is what is wrong on the way from a process to a node, and how long.
type linkState struct {
	chance *rand.Rand // how long a command takes, and what becomes of it
	mode   string     // slow, stuck, lossy, cut
	until  int64
}

func newWorld(t *testing.T, p *plan) *world {
	w := &world{t: t, plan: p, begun: time.Now(), stat: stats{}, stepped: map[*worldNode]bool{},
		forgetful: map[*worldNode]bool{}}
	for i := range p.Nodes {
		n := &worldNode{server: redissim.NewServer(time.Now)}
		if i < len(p.Skew) {
			n.server.Step(p.Skew[i])
		}
		go n.server.Serve()
		w.nodes = append(w.nodes, n)
	}
	for i, l := range p.Limits {
		w.limit = append(w.limit, &watched{world: w, number: i, plan: l, events: map[string]int64{}})
	}
	for i, pp := range p.Procs {
		proc := &process{world: w, number: i, plan: pp}
		for node := range p.Nodes {
			proc.links = append(proc.links, linkState{chance: rand.New(rand.NewPCG(p.Seed, uint64(i*p.Nodes+node)))})
		}
		w.procs = append(w.procs, proc)
		proc.start()
	}
	return w
}

// scripts is how many script calls there were so far.
func (w *world) scripts() (n int64) {
	for _, node := range w.nodes {
		n += node.server.Scripts.Load()
	}
	return n
}

// rest lets time pass; not all of it when a history has become too long: some processes never stop
// asking.
func (w *world) rest(d time.Duration) {
	for d > 0 && !w.over() {
		part := min(d, 2*time.Second)
		time.Sleep(part)
		d -= part
	}
}

func (w *world) now() int64 { return int64(time.Since(w.begun)) }

// within is a context that ends after so long.
func (w *world) within(d time.Duration) context.Context { return limittest.Shortly(w.t, d) }

// did counts something that happened.
func (w *world) did(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stat[what]++
}

// found notes something that must not be.
func (w *world) found(kind, format string, a ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.findings = append(w.findings, finding{kind, fmt.Sprintf(format, a...)})
}

// trouble notes that something is wrong with a node or on the way to one.
func (w *world) trouble() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.troubled = true
}

// well reports whether nothing was ever wrong with a node or on the way to one. After that a
// breaker may be open until a call has had it probe.
func (w *world) well() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.troubled
}

// close ends everything that goes on.
func (w *world) close() {
	for _, p := range w.procs {
		if p.suspended > w.now() {
			p.kill()
		}
	}
	w.wg.Wait()
	for _, p := range w.procs {
		p.kill()
	}
	time.Sleep(5 * time.Second) // what was under way ends by its timeout; a goroutine that does not is a finding
	for _, n := range w.nodes {
		n.server.Close()
	}
	w.stat["script calls"] = w.scripts()
}

// start makes the process' client.
func (p *process) start() {
	p.life++
	p.ended = make(chan struct{})
	p.has, p.kept = make(map[string]opened), nil
	cfg := shardlimit.Config{
		Participant: fmt.Sprintf("p%d.%d", p.number, p.life), OnOutage: p.plan.Outage, AfterLoss: p.plan.Loss,
		NodeTimeout: p.plan.NodeTimeout,
		KeyPrefix:   "h:", MeterProvider: metricnoop.NewMeterProvider(), TracerProvider: tracenoop.NewTracerProvider(),
	}
	life := p.life
	for _, i := range p.plan.Nodes {
		link := redissim.NewLink(p.world.nodes[i].server,
			func(command []string) redissim.Fate { return p.fate(i, life, command) }, p.stand)
		cfg.Nodes = append(cfg.Nodes, shardlimit.Node{Name: fmt.Sprint("n", i), Client: link,
			Drain: slices.Contains(p.drains, i)})
	}
	client, err := shardlimit.New(cfg)
	if err != nil {
		panic(err)
	}
	p.client = client
}

// stand has what the process does wait while it is suspended.
func (p *process) stand() {
	for {
		left := p.suspended - p.world.now()
		if left <= 0 {
			return
		}
		select {
		case <-time.After(time.Duration(left) + time.Microsecond):
		case <-p.ended:
			return
		}
	}
}

// fate is what becomes of a command to a node.
func (p *process) fate(node, life int, command []string) redissim.Fate {
	w := p.world
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	w.trace = append(w.trace, sent{now, xxhash.Sum64String(fmt.Sprintln(p.number, life, node, command))})
	chance := p.links[node].chance
	way := int64(p.plan.Latency[node]) / 2
	f := redissim.Fate{
		There:   time.Duration(10_000 + way + chance.Int64N(way/4+5_000)),
		Back:    time.Duration(10_000 + way + chance.Int64N(way/4+5_000)),
		Refused: life != p.life || p.client == nil || w.nodes[node].downUntil > now,
	}
	if l := p.links[node]; l.until > now {
		switch l.mode {
		case "slow":
			f.There += time.Duration(chance.Int64N(int64(60 * time.Millisecond)))
			f.Back += time.Duration(chance.Int64N(int64(60 * time.Millisecond)))
		case "stuck":
			f.There += time.Duration(l.until - now)
		case "lossy":
			f.Lost, f.ReplyLost = chance.IntN(4) == 0, chance.IntN(4) == 0
		case "cut":
			f.Refused = true
		}
	}
	return f
}

// kill ends the process at once: what it has sent arrives, and nobody waits for the answer.
func (p *process) kill() {
	if p.client != nil {
		client := p.client
		p.client, p.suspended = nil, 0
		close(p.ended)
		client.Close()
	}
}

// works reports whether the process can do anything now.
func (p *process) works() bool { return p.client != nil && p.suspended <= p.world.now() }

// handle returns the process' handle on a limit (of a family: on its first key), nil if it has
// none. Every second life opens a limit, as a tool does, and declares it only if there is none.
func (p *process) handle(l *watched) *shardlimit.Limiter {
	name, has := l.name(), p.has // what this life has: it may end meanwhile
	if h := has[name].limit; h != nil {
		return h
	}
	ctx := p.world.within(3 * time.Second)
	if p.life%2 == 0 && !l.plan.Family && len(l.versions) > 0 {
		start, life := p.world.now(), p.life
		h, err := p.client.Open(ctx, name)
		if err == nil {
			has[name] = opened{limit: h}
			return h
		}
		if !errors.Is(err, shardlimit.ErrNotFound) {
			if p.life == life && p.works() && p.near(l) && p.lists() && p.world.well() {
				p.world.found("outage", "p%d could not open %s while all nodes were well, at %s: %v", p.number, name,
					time.Duration(start), err)
			}
			return nil
		}
	}
	if len(l.versions) == 0 && p.apart() {
		defer l.doubted()
	}
	l.declared(p.world.now())
	if !l.plan.Family {
		if h, err := p.client.Limiter(ctx, name, l.plan.Limit); err == nil {
			has[name] = opened{limit: h}
		}
	} else if f, err := p.client.Family(ctx, name, l.plan.Limit); err == nil {
		has[name] = opened{limit: f.Limiter("k"), family: f}
		if l.placed {
			l.again(p.world.now()) // where the key is now, a limit of a higher revision may be unknown
		}
	}
	return has[name].limit
}

// record notes a call that was granted permits and returns its number, or -1.
func (p *process) record(l *watched, start int64, d shardlimit.Decision, err error) int {
	w := p.world
	end := w.now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stat["calls"]++
	switch {
	case err != nil:
		w.stat["calls, failed"]++
		if errors.Is(err, shardlimit.ErrInvalidLimit) {
			w.findings = append(w.findings, finding{"invalid", err.Error()})
		}
		return -1
	case d.Degraded:
		w.stat["calls, degraded"]++
		return -1
	case d.Granted == 0:
		w.stat["calls, denied"]++
		return -1
	}
	w.stat["permits"] += d.Granted
	due := int64(d.Delay) // they may act then, and not before
	shortest := slices.MinFunc(l.versions, func(a, b *version) int { return cmp.Compare(a.limit.Per, b.limit.Per) })
	if l.came && end-l.granted > 2*int64(shortest.limit.Per) {
		// who waited may find a new state, too
		l.again(max(start, l.granted))
	}
	l.granted = max(l.granted, end)
	l.ops = append(l.ops, history.Op{Start: start + due, End: end + due, Permits: d.Granted})
	if due > 0 {
		l.books(start, end+due)
		l.turns = max(l.turns, d.Granted)
	}
	return len(l.ops) - 1
}

// judgeAnswer looks at how a call that answers at once ended.
func (p *process) judgeAnswer(l *watched, start int64, d shardlimit.Decision, err error) {
	w := p.world
	if p.suspended > start || p.client == nil || !p.works() {
		return
	}
	if took := time.Duration(w.now() - start); took > shardlimit.DefaultCallTimeout+20*time.Millisecond {
		w.found("late", "a call of p%d took %s, the call timeout is %s, at %s", p.number, took,
			shardlimit.DefaultCallTimeout, time.Duration(start))
	}
	if (d.Degraded || limittest.IsOutage(err)) && p.near(l) && p.lists() && w.well() {
		w.found("outage", "p%d was answered by the outage policy while all nodes were well, at %s: %v", p.number,
			time.Duration(start), err)
	}
}

// near reports whether the process can ask all shards of the limit one after the other well within
// its call timeout.
func (p *process) near(l *watched) bool {
	shards := max(l.current().Shards, 1)
	w := p.world
	w.mu.Lock()
	woke := l.plan.Family && w.now()-p.woke < int64(time.Second)
	w.mu.Unlock()
	if l.moves() || l.placed || l.relocated || l.changing() || woke {
		// before the call the record is read, after a look where it has moved to, and a key's
		// shards are asked and raised
		shards += 3
	}
	if h := p.has[l.name()].limit; h != nil {
		shards = max(shards, h.Limit().Shards) // a change of the limit may have failed
	}
	return slices.Max(p.plan.Latency)*time.Duration(shards+2) < shardlimit.DefaultCallTimeout/2
}

// cut reports whether something is wrong right now on the way to a node: what it has is taken over
// once a process has noticed, and that it is back is noticed after a while, too. Any process that
// gets no answer may put it out.
func (p *process) cut() bool {
	w := p.world
	lately := w.now() - int64(time.Minute)
	for i, n := range w.nodes {
		if !n.retired && n.downUntil > max(lately, 0) || slices.ContainsFunc(w.procs, func(by *process) bool {
			l := by.links[i]
			return l.until > lately && l.mode != "" && (by == p || w.plan.takesOver() && l.mode != "slow")
		}) {
			return w.plan.Scripts > 0
		}
	}
	return false
}

func every(string) bool { return true }

// chosen are the nodes that a step is about.
func (w *world) chosen(s step) []*worldNode {
	if s.Node < 0 {
		return w.nodes
	}
	return []*worldNode{w.nodes[s.Node%len(w.nodes)]}
}

// apart reports whether the process would keep the record of a new limit only on nodes that some
// other process does not list. Then each may begin the limit for itself.
func (p *process) apart() bool {
	return slices.ContainsFunc(p.world.procs, func(other *process) bool {
		return !slices.ContainsFunc(p.plan.Nodes, func(n int) bool {
			return !slices.Contains(p.drains, n) && slices.Contains(other.plan.Nodes, n)
		})
	})
}

// lists reports whether the process lists every node of the world that serves and anybody lists.
func (p *process) lists() bool {
	for i, n := range p.world.nodes {
		if !n.retired && !slices.Contains(p.plan.Nodes, i) && slices.ContainsFunc(p.world.procs,
			func(other *process) bool { return slices.Contains(other.plan.Nodes, i) }) {
			return false
		}
	}
	return true
}
