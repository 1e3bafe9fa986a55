package schedules

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/history"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// guarded is a limit of a schedule, and what is known of it.
type guarded struct {
	*schedule
	name     string
	limiters []*shardlimit.Limiter // of each process
	calls    *limittest.Traffic
	callers  int      // in each process
	files    []string // histories of other processes

	mu       sync.Mutex
	versions []inForce
	excuses  []*excuse
	excused  bool           // a window held more than the limit
	settling sync.WaitGroup // changes that have not settled
}

// inForce is a limit that may be in force from an instant until another; 0: it still may.
type inForce struct {
	limit       shardlimit.Limit
	from, until int64
}

// excuse is permits that windows which touch this time may hold beside the limit, because
// docs/failures.md says so of what happened then.
type excuse struct {
	from, until int64
	permits     int64
	why         string
}

// guard begins to watch over a limit.
func (s *schedule) guard(name string, limit shardlimit.Limit,
	open func(*shardlimit.Client) *shardlimit.Limiter) *guarded {
	g := &guarded{schedule: s, name: name, callers: 3, versions: []inForce{{limit: limit, from: history.Now()}}}
	for _, c := range s.clients {
		g.limiters = append(g.limiters, open(c))
	}
	s.limits = append(s.limits, g)
	return g
}

// start has the limit called.
func (g *guarded) start() {
	g.calls = limittest.MakeTraffic()
	g.calls.Dying, g.calls.Nodding, g.calls.Rest = true, 3*time.Millisecond, 3*time.Millisecond
	g.calls.Start(g.callers, g.limiters...)
}

// now is the limit that was asked for last.
func (g *guarded) now() shardlimit.Limit {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.versions[len(g.versions)-1].limit
}

// set changes the limit. If that fails, it may have been changed or not.
func (g *guarded) set(l *shardlimit.Limiter, limit shardlimit.Limit) error {
	g.mu.Lock()
	before := len(g.versions)
	g.versions = append(g.versions, inForce{limit: limit, from: history.Now()})
	g.mu.Unlock()
	err := l.SetLimit(g.Context(), limit)
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil {
		// as before, as far as anybody knows
		g.versions = append(g.versions, inForce{limit: g.versions[before-1].limit, from: history.Now()})
		return err
	}
	ends := func() { // g.mu is held
		for i := range before {
			if v := &g.versions[i]; v.until == 0 {
				v.until = history.Now() + int64(v.limit.Lease)
			}
		}
	}
	if !g.takeover {
		ends()
		return nil
	}
	// A takeover before the change has settled is another change, and
	// docs/reference/changing-a-limit.md has the limit before count until that one has settled.
	g.settling.Go(func() {
		for ; g.Context().Err() == nil; time.Sleep(50 * time.Millisecond) {
			if st, err := l.Peek(g.Context()); err == nil && st.Settled {
				break
			}
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		ends()
	})
	return nil
}

// found notes what is in force in the end: a change that failed may have been made all the same.
func (g *guarded) found(limit shardlimit.Limit) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !slices.ContainsFunc(g.versions, func(v inForce) bool { return limittest.Same(v.limit, limit) }) {
		g.Errorf("%s: nobody asked for %v: %+v", g.name, limit, g.versions)
	}
	if !limittest.Same(g.versions[len(g.versions)-1].limit, limit) {
		g.versions = append(g.versions, inForce{limit: limit, from: history.Now()})
	}
}

// excuse notes what is allowed from now on. What is returned ends that after a while.
func (g *guarded) excuse(permits int64, why string) (until func(later time.Duration)) {
	e := &excuse{from: history.Now(), until: math.MaxInt64, permits: permits, why: why}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.excuses = append(g.excuses, e)
	return func(later time.Duration) {
		g.mu.Lock()
		defer g.mu.Unlock()
		e.until = history.Now() + int64(later)
	}
}

// excuse notes, for every limit, that the share of a node may be granted once more because of a
// trouble, until what is returned is called.
func (s *schedule) excuse(st *station, t trouble) (until func()) {
	var all []func()
	if t.excess != "" {
		for _, g := range s.limits {
			end := g.excuse(g.shareOn(st), t.excess)
			all = append(all, func() { end(g.now().Per) }) // what a snapshot has in use leaves the window
		}
	}
	return func() {
		for _, end := range all {
			end()
		}
	}
}

// shareOn is the most that the shards of a node can grant at once, of a cluster those on the master
// that is hit: all of the limit if that cannot be told.
func (g *guarded) shareOn(st *station) int64 {
	g.mu.Lock()
	limit := slices.MaxFunc(g.versions, func(a, b inForce) int { return int(a.limit.Permits - b.limit.Permits) }).limit
	g.mu.Unlock()
	most := limittest.Bound(limit, limit.Per)
	state, err := g.limiters[0].Peek(limittest.Shortly(g.T, time.Second))
	if err != nil || len(state.Lost) > 0 || !state.Settled || state.Limit != g.now() {
		return most
	}
	var share int64
	for _, shard := range state.Shards {
		if shard.Node == st.name && (st.hit == nil || st.cluster.Owner(shard.Slot) == st.hit) {
			share += max(shard.Share, shard.Target)
		}
	}
	return min(most*share/max(limit.Permits, 1)+int64(len(state.Shards)), most)
}

// stop ends all calls.
func (g *guarded) stop() {
	g.settling.Wait()
	ops, err := g.calls.Stop()
	if !limittest.Harmless(err) {
		g.Errorf("%s: %v", g.name, err)
	}
	more, err := history.ReadFiles(g.files...)
	if err != nil {
		g.Error(err)
	}
	for _, op := range more {
		g.calls.Record.Tally().Add(op.Start, op.End, op.Permits)
	}
	g.tally.add("decisions", g.calls.Calls.Load()+int64(len(more))-g.calls.Failures.Load())
	g.tally.add("permits", history.Total(ops)+history.Total(more))
	g.tally.add("calls that failed", g.calls.Failures.Load())
}

// judge looks for an interval that holds more than it may.
func (g *guarded) judge() {
	ops, per := g.calls.Record.Ops(), g.now().Per
	g.judgeBy(per, ops)
	for _, windows := range limittest.Longer(g.now().Algorithm) {
		g.judgeBy(windows*per, ops)
	}
	if history.Busiest(per, ops).Permits*10 >= g.now().Permits*9 {
		g.tally.add("limits that were used up", 1)
	}
	if g.excused {
		g.tally.add("limits of which a window held more, within the bounds of docs/failures.md", 1)
	}
}

func (g *guarded) judgeBy(width time.Duration, ops []history.Op) {
	worst, excess := history.CheckBy(width, func(from int64) int64 {
		permits, more, _ := g.allowed(from, width)
		return permits + more
	}, ops)
	if excess > 0 {
		_, _, whys := g.allowed(worst.Start, width)
		g.Errorf("over: %s: %v, which is %d more than allowed; excused: %q\n%+v", g.name, worst, excess, whys,
			g.versions)
		return
	}
	_, beyond := history.CheckBy(width, func(from int64) int64 {
		permits, _, _ := g.allowed(from, width)
		return permits
	}, ops)
	if beyond > 0 {
		g.excused = true
		g.Logf("%s: %d permits more than the limit in a window, within the bounds of docs/failures.md", g.name, beyond)
	}
}

// allowed is what an interval may hold, how many more for what is excused, and why.
func (g *guarded) allowed(from int64, width time.Duration) (permits, more int64, whys []string) {
	for _, v := range g.versions {
		if v.from < from+int64(width) && (v.until == 0 || v.until > from) {
			permits = max(permits, limittest.Bound(v.limit, width))
		}
	}
	for _, e := range g.excuses {
		if e.from < from+int64(width) && e.until >= from {
			more += e.permits
			whys = append(whys, e.why)
		}
	}
	return permits, more, whys
}

// nothingIsStranded looks, when nothing is called and all nodes are well, whether the whole limit
// can be taken at once, and whether what is free is granted. Both are done in a quiet time: who was
// denied lately is contended with, and paced.
func (g *guarded) nothingIsStranded() {
	limit, tries := g.now(), 0
	var took int64
	limittest.AwaitWithin(g.T, 2*limittest.TakenOverWithin, "all of "+g.name+" can be taken at once", func() bool {
		g.awaitFree(limit)
		time.Sleep(4 * limit.Per)
		took = g.take(g.limiters[tries%3], limittest.MostAtOnce(limit))
		tries++
		return took >= limittest.MostAtOnce(limit)
	}, func() string { return fmt.Sprintf("taken were %d of %d", took, limittest.MostAtOnce(limit)) })
	g.awaitFree(limit)
	time.Sleep(4 * limit.Per)
	for i := range 10 {
		l := g.limiters[i%3]
		limittest.AwaitWithin(g.T, limittest.Patience, "a permit that is free is granted", func() bool {
			start := history.Now()
			d, err := l.Allow(g.Context())
			took := time.Duration(history.Now() - start)
			g.calls.Record.Tally().Add(start, start+int64(took), d.Granted)
			if err == nil && !d.Allowed && took < scheduleTimeout/2 {
				// else the machine was too busy to ask every shard
				st, err := l.Peek(g.Context())
				g.Errorf("%s: call %d of a quiet time was denied after %v: %+v\n%s", g.name, i, took, d,
					limittest.StateText(st, err))
			}
			return err == nil && d.Allowed
		})
	}
}

// awaitFree waits until all that was used has come back. Now and then all of it is asked for: a
// shard that came back with an old snapshot has its share by that.
func (g *guarded) awaitFree(limit shardlimit.Limit) {
	var st shardlimit.State
	var err error
	pause := 3 * (limit.Per + time.Duration(limittest.MostAtOnce(limit)/limit.Permits)*limit.Per)
	called := time.Now()
	limittest.AwaitWithin(g.T, 2*limittest.TakenOverWithin, "all of "+g.name+" is free", func() bool {
		if time.Since(called) > pause {
			g.take(g.limiters[0], limittest.MostAtOnce(limit))
			called = time.Now()
		}
		st, err = g.limiters[0].Peek(g.Context())
		return err == nil && st.Remaining >= limittest.MostAtOnce(limit)
	}, func() string { return limittest.StateText(st, err) })
}

// take has one process ask for as much as there is.
func (g *guarded) take(l *shardlimit.Limiter, most int64) (took int64) {
	for range 4 {
		start := history.Now()
		d, err := l.AllowUpTo(g.Context(), most)
		if err != nil {
			return took
		}
		g.calls.Record.Tally().Add(start, history.Now(), d.Granted)
		took += d.Granted
	}
	return took
}
