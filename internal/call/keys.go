package call

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/shardlimit/shardlimit/internal/chance"
	"github.com/shardlimit/shardlimit/internal/dispatch"
	"github.com/shardlimit/shardlimit/internal/limit"
)

// keys are the keys of a family of which a process has something: those that calls are under way
// for, and those of which it remembers something that spares calls or that a later one must know.
// They are divided among parts, each with a lock of its own, so that calls for different keys do
// not meet.
type keys struct {
	prefix string // of their ids
	spread uint64 // odd, drawn at random; a test can make it repeatable
	most   int    // that a part remembers
	parts  [keyParts]keyPart
}

const (
	keyBits  = 5
	keyParts = 1 << keyBits
)

const (
	// keySweep is how often a part looks for what need not be remembered any more.
	keySweep = time.Second
	// keyIdle is how long a key is remembered after its last call if it is costly to begin with.
	keyIdle = time.Second
)

type keyPart struct {
	mu       sync.Mutex
	targets  map[limit.Keyed]*Target
	denied   map[string]denial // of keys without a target
	asked    map[uint64]alone  // by hash: keys that are asked for alone
	idle     int               // targets that are held by nobody
	sweeping bool              // it will be looked for those that can go

	_ [24]byte // so that no two share a cache line
}

// alone is the asks for a key that has no target.
type alone struct {
	n         int8 // that are under way, at most mostAlone
	disturbed bool // it had a target since, or one of them found permits
}

// mostAlone is how many there are: more had better share one. With only one, a fifth of 10,000
// callers on 50,000 keys needed a target.
const mostAlone = 2

// denial is that a key has nothing free, and all that a process remembers of it.
type denial struct {
	dispatch.Denied
	of *limit.Routes // the family's
}

// remember has so many keys remembered, or some more. They are not divided evenly: hardly any part
// has four standard deviations more than the mean, and a few.
func (ks *keys) remember(size int) {
	mean := float64(size) / keyParts
	ks.spread, ks.most = chance.Uint64()|1, int(math.Ceil(mean+4*math.Sqrt(mean)))+4
}

// hold returns what the process has of a key, for one who releases it.
func (ks *keys) hold(f *Family, k limit.Keyed, invalid error) *Target {
	if invalid = cmp.Or(invalid, limit.CheckName("key", k.Key)); invalid != nil {
		// It is not remembered: it may be of any length.
		return f.newKey(limit.Keyed{}, invalid)
	}
	hash := ks.hash(k.Key)
	p := ks.part(hash)
	p.mu.Lock()
	defer p.mu.Unlock()
	if asks, asked := p.asked[hash]; asked {
		asks.disturbed = true
		p.asked[hash] = asks
		delete(p.denied, k.Key) // the other of two may find permits yet
	}
	c := p.targets[k]
	switch {
	case c == nil:
		if p.targets == nil {
			p.targets = make(map[limit.Keyed]*Target)
		}
		c = f.newKey(k, nil)
		c.part, p.targets[k] = p, c
		p.handOver(c)
	case c.uses == 0:
		p.idle--
	}
	c.uses++
	return c
}

// handOver has a new target know what was remembered of its key without one. A limit that comes
// with the calls may raise what is free, so then it is only forgotten. p.mu is held.
func (p *keyPart) handOver(c *Target) {
	d, denied := p.denied[c.Key.Key]
	delete(p.denied, c.Key.Key)
	if !denied || c.Key.Came != (limit.Keyed{}).Came {
		return
	}
	if r := c.Known(); r != nil && c.From.Load() == d.of && len(r.Shards) == 1 {
		r.Shards[0].Believe(&d.Denied)
	}
}

// newKey returns what a process has of a key at first.
func (f *Family) newKey(k limit.Keyed, invalid error) *Target {
	c := newTarget(f.Target.Process, "", f.keys.prefix+k.Key, limit.Limit{})
	c.Of, c.Family, c.Key, c.Invalid, c.Metrics = f, &f.Family, k, invalid, f.Target.Metrics
	return c
}

// Hold does what Limiter.Hold does, for a target that another call held.
func (c *Target) Hold() *Target {
	if c.Family == nil {
		return c
	}
	return c.Of.keys.hold(c.Of, c.Key, c.Invalid)
}

// Release ends a hold.
func (c *Target) Release() {
	p := c.part
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.uses--; c.uses > 0 {
		return
	}
	c.idle, c.counts = c.Process.Now(), 0
	if d, denied := denialOf(c, c.idle); toRemember(c, c.idle, denied) {
		p.idle++
		p.remembers(c.Of)
	} else if delete(p.targets, c.Key); denied {
		p.denies(c.Of, c.Key.Key, d)
	}
}

// denies remembers a denial of a key without a target. p.mu is held.
func (p *keyPart) denies(of *Family, key string, d denial) {
	if p.denied == nil {
		p.denied = make(map[string]denial)
	}
	p.denied[key] = d
	p.remembers(of)
}

// remembers bounds what is remembered, in number and in time. p.mu is held.
func (p *keyPart) remembers(of *Family) {
	if p.idle+len(p.denied) > of.keys.most {
		p.dropOne()
	}
	if !p.sweeping {
		p.sweeping = true
		time.AfterFunc(keySweep, func() { p.sweep(of.Target.Process) })
	}
}

// dropOne forgets a key that nobody holds. p.mu is held.
func (p *keyPart) dropOne() {
	for k := range p.denied {
		delete(p.denied, k)
		return
	}
	for k, c := range p.targets {
		if c.uses == 0 {
			delete(p.targets, k)
			p.idle--
			return
		}
	}
}

// sweep forgets what need not be remembered any more.
func (p *keyPart) sweep(of *limit.Process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := of.Now()
	maps.DeleteFunc(p.targets, func(_ limit.Keyed, c *Target) bool {
		gone := c.uses == 0 && (of.Closed.Load() || !toRemember(c, now, false))
		if gone {
			p.idle--
		}
		return gone
	})
	maps.DeleteFunc(p.denied, func(_ string, d denial) bool { return of.Closed.Load() || d.Over(now) })
	if len(p.targets) == 0 {
		p.targets = nil // a map keeps the room that it once had
	}
	if len(p.denied) == 0 {
		p.denied = nil
	}
	if p.sweeping = p.idle+len(p.denied) > 0; p.sweeping {
		time.AfterFunc(keySweep, func() { p.sweep(of) })
	}
}

// Known returns of how many keys the process has something.
func (f *Family) Known() (n int) {
	for i := range f.keys.parts {
		p := &f.keys.parts[i]
		p.mu.Lock()
		n += len(p.targets) + len(p.denied) + len(p.asked)
		p.mu.Unlock()
	}
	return n
}

// all returns what the process has of every key, or of those that are held, in the order of their
// ids.
func (ks *keys) all(held bool) (all []*Target) {
	for i := range ks.parts {
		p := &ks.parts[i]
		p.mu.Lock()
		for _, c := range p.targets {
			if !held || c.uses > 0 {
				all = append(all, c)
			}
		}
		p.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b *Target) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// alike returns what the process has of the limit, or of its key: that of each limit that came with
// calls.
func (c *Target) alike() []*Target {
	p := c.part
	if p == nil {
		return []*Target{c}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.denied, c.Key.Key)
	var all []*Target
	for k, other := range p.targets {
		if k.Key == c.Key.Key {
			all = append(all, other)
		}
	}
	return all
}

// denialOf returns that nothing is free, if that is all to remember of it. A key whose limit comes
// with the calls has a target for a while anyway.
func denialOf(c *Target, now int64) (d denial, denied bool) {
	of, r := c.Of.Target.Routes.Load(), c.Routes.Load()
	if of == nil || r == nil || c.From.Load() != of || len(r.Shards) != 1 || c.Key.Came != (limit.Keyed{}).Came ||
		r.Limit.Mode != limit.Enforced || r.Limit.Scope != limit.Global {
		return d, false
	}
	d.Denied, denied = r.Shards[0].Known.Denied(now)
	d.of = of
	return d, denied
}

// hash returns by what a key is told from most others.
func (ks *keys) hash(key string) uint64 { return xxhash.Sum64String(key) * ks.spread }

// part returns where what the process has of a key with that hash is.
func (ks *keys) part(hash uint64) *keyPart { return &ks.parts[hash>>(64-keyBits)] }

// toRemember reports whether the next call for a key that nobody holds must find what the process
// has of it: that nothing is free, unless that is remembered by itself, that a script call is under
// way, how far a move is, or what this process counts by itself. For a while it is better if it
// does: a limit that comes with the calls costs more to look at than a call, and a state that is
// rare costs two.
func toRemember(c *Target, now int64, denied bool) bool {
	of, r := c.Of.Target.Routes.Load(), c.Routes.Load()
	if of != nil && of.Layout.Keys.Moving() {
		return true
	}
	if o := c.ahead.Load(); o != nil && now < o.until {
		return true
	}
	rare := c.Key.Came != (limit.Keyed{}).Came
	if r != nil {
		for _, sh := range r.Shards {
			if !denied && sh.Known.Shut(now) || sh.Unanswered.Load() > 0 {
				return true
			}
			rare = rare || sh.Known.Rare.Load()
		}
	}
	if rare && now < c.idle+int64(keyIdle) || now < c.counts {
		return true
	}
	left := time.Duration(0)
	if s := c.seldom.Load(); s != nil {
		left = s.own.Reset()
	}
	if e := c.member.engine.Load(); e != nil {
		left = max(left, e.Reset())
	}
	if left > 0 {
		c.counts = now + int64(left)
	}
	return left > 0
}
