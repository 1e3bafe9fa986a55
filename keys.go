package shardlimit

import (
	"context"
	"hash/maphash"
	"math"
	"sync"
	"time"
	"unique"

	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

// keyed is a key with the terms that come with its calls, if any do.
type keyed struct {
	key  string
	came unique.Handle[shard.Terms] // the zero handle: none
}

// terms are those that come with the key's calls.
func (k keyed) terms() (t shard.Terms) {
	if k.came != (unique.Handle[shard.Terms]{}) {
		t = k.came.Value()
	}
	return t
}

// keys are the keys of a family of which a process has something: those that calls are under way
// for, and those of which it remembers something that spares calls or that a later one must know.
// They are divided among parts, each with a lock of its own, so that calls for different keys do
// not meet.
type keys struct {
	prefix string // of their ids
	seed   maphash.Seed
	most   int // that a part remembers
	parts  [keyParts]keyPart
}

const keyParts = 32

const (
	// keySweep is how often a part looks for what need not be remembered any more.
	keySweep = time.Second
	// keyRest is how long a key is remembered that is costly to begin with.
	keyRest = 10 * time.Second
)

type keyPart struct {
	mu       sync.Mutex
	cores    map[keyed]*core
	idle     int  // of these are held by nobody
	sweeping bool // it will be looked for those that can go

	_ [32]byte // so that no two share a cache line
}

// remember has so many keys remembered, or some more. They are not divided evenly: hardly any part
// has four standard deviations more than the mean, and a few.
func (ks *keys) remember(size int) {
	mean := float64(size) / keyParts
	ks.seed, ks.most = maphash.MakeSeed(), int(math.Ceil(mean+4*math.Sqrt(mean)))+4
}

// hold returns what the process has of a key, for one who releases it.
func (ks *keys) hold(f *Family, k keyed, invalid error) *core {
	if invalid == nil {
		invalid = checkName("key", k.key)
	}
	if invalid != nil { // not remembered: it may be of any length
		return f.newKey(keyed{}, invalid)
	}
	p := &ks.parts[maphash.String(ks.seed, k.key)%keyParts]
	p.mu.Lock()
	c := p.cores[k]
	if c == nil {
		p.mu.Unlock()
		fresh := f.newKey(k, nil) // the others need not wait for that
		fresh.part = p
		p.mu.Lock()
		if c = p.cores[k]; c == nil {
			if p.cores == nil {
				p.cores = make(map[keyed]*core)
			}
			c, p.cores[k] = fresh, fresh
			c.uses = 1
			p.mu.Unlock()
			return c
		}
	}
	if c.uses == 0 {
		p.idle--
	}
	c.uses++
	p.mu.Unlock()
	return c
}

// crowdedOut reports whether a call for one permit would be shed, without a look at where it would
// go: what the process does for that takes the time of those that can be served. It is for a key of
// which nothing is known.
func (l *Limiter) crowdedOut(n int64) bool {
	f := l.family
	if f == nil || n != 1 {
		return false
	}
	c := f.core.client
	if !c.lanes.Crowded(c.nodes.Roster()) || c.cfg.OnOutage == FailOpen || c.cfg.OnOutage == FailLocal {
		return false
	}
	r := f.core.routes.Load()
	return r != nil && r.limit.Mode == Enforced && r.limit.Scope == Global && l.key.terms().Mode == "" &&
		l.invalid == nil && checkName("key", l.key.key) == nil && !f.keys.has(l.key)
}

// shed ends a call that was crowded out.
func (f *Family) shed(ctx context.Context, d *Decision) error {
	since := f.core.client.now()
	err := f.core.gone(ctx, nil)
	if err == nil {
		err = f.core.park(ctx, since)
	}
	if err == nil {
		err = errOverloaded
	}
	f.core.decided(ctx, d, 1, since, err)
	return err
}

// has reports whether the process has something of a key.
func (ks *keys) has(k keyed) bool {
	p := &ks.parts[maphash.String(ks.seed, k.key)%keyParts]
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cores[k] != nil
}

// newKey is what a process has of a key at first.
func (f *Family) newKey(k keyed, invalid error) *core {
	space := f.spaces[shard.Region(f.keys.prefix, k.key)].Load()
	if space == nil {
		space = &script.Space{}
	}
	text, id := space.Text(f.keys.prefix, k.key)
	c := newCore(f.core.client, "", id)
	c.family, c.key, c.text, c.invalid, c.metrics = f, k, text, invalid, f.core.metrics
	return c
}

// hold is Limiter.hold for a core that another call held.
func (c *core) hold() *core {
	if c.family == nil {
		return c
	}
	return c.family.keys.hold(c.family, c.key, c.invalid)
}

// release ends a hold.
func (c *core) release() {
	p := c.part
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.uses--; c.uses > 0 {
		return
	}
	c.idle, c.counts = c.client.now(), 0
	if !c.remembers(c.idle) {
		delete(p.cores, c.key)
		return
	}
	if p.idle++; p.idle > c.family.keys.most {
		p.drop(func(*core) bool { return true }, 1)
	}
	if !p.sweeping {
		p.sweeping = true
		time.AfterFunc(keySweep, func() { p.sweep(c.client) })
	}
}

// drop forgets keys that nobody holds and that may go, at most so many. p.mu is held.
func (p *keyPart) drop(may func(*core) bool, most int) {
	for k, c := range p.cores {
		if most == 0 {
			return
		}
		if c.uses == 0 && may(c) {
			delete(p.cores, k)
			p.idle--
			most--
		}
	}
}

// sweep forgets what need not be remembered any more.
func (p *keyPart) sweep(of *Client) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := of.now()
	p.drop(func(c *core) bool { return of.closed.Load() || !c.remembers(now) }, p.idle)
	if len(p.cores) == 0 {
		p.cores = nil // a map keeps the room that it once had
	}
	if p.sweeping = p.idle > 0; p.sweeping {
		time.AfterFunc(keySweep, func() { p.sweep(of) })
	}
}

// all are those that the process has.
func (ks *keys) all() (all []*core) {
	for i := range ks.parts {
		p := &ks.parts[i]
		p.mu.Lock()
		for _, c := range p.cores {
			all = append(all, c)
		}
		p.mu.Unlock()
	}
	return all
}

// remembers reports whether the next call for a key that nobody holds must find what the process
// has of it: that nothing is free, that a script call is under way, how far a move is, or what this
// process counts by itself. For a while it is better if it does: a limit that comes with the calls
// costs more to look at than a call, and a state that is rare costs two.
func (c *core) remembers(now int64) bool {
	of, r := c.family.core.routes.Load(), c.routes.Load()
	if of != nil && of.layout.Keys.Moving() {
		return true
	}
	if o := c.ahead.Load(); o != nil && now < o.until {
		return true
	}
	rare := c.key.came != (keyed{}).came
	if r != nil {
		for _, l := range r.lanes {
			if l.Shut(now) || l.Waiting.Load() > 0 {
				return true
			}
			rare = rare || l.Rare()
		}
	}
	if rare && now < c.idle+int64(keyRest) || now < c.counts {
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
