package fleet

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/load"
	"github.com/shardlimit/shardlimit/internal/history"
)

// failedPause is how long a caller whose wait failed leaves the servers alone.
const failedPause = 100 * time.Millisecond

// wait blocks until a permit has been granted, or ctx ends.
type wait func(ctx context.Context) error

// retried makes a wait of a call that tells, when it is denied, after what time to
// come again.
func retried(try func(ctx context.Context) (granted bool, after time.Duration, err error)) wait {
	return func(ctx context.Context) error {
		for {
			granted, after, err := try(ctx)
			if granted || err != nil {
				return err
			}
			if err := load.Sleep(ctx, after); err != nil {
				return err
			}
		}
	}
}

// work yields how long a caller works before it wants its next permit: times that
// are distributed exponentially, the same ones for the same seed of the crowd.
func (m Member) work(seed uint64, caller int) func() time.Duration {
	random := rand.New(rand.NewPCG(seed<<16+uint64(m.Index), uint64(caller)+1))
	return func() time.Duration { return time.Duration(random.ExpFloat64() * float64(m.Work)) }
}

// wishes are what a member's callers want that do not work in between: whatever there is, so
// the whole limit, in takes that get nothing.
func (c *Crowd) wishes(m Member) (wishes []Take) {
	all := (c.Permits*int64(c.Tick) + int64(c.Per) - 1) / int64(c.Per)
	for at := m.From; at < c.until(m); at += c.Tick {
		wishes = append(wishes, Take{At: at.Microseconds(), End: at.Microseconds(), Wanted: all})
	}
	return wishes
}

// missed are the instants at which a caller that waits from one time to another would have wanted
// further permits: who waits does not work, and after each mean time of work it would want
// one. It had waited for so long before that.
func (m Member) missed(before, from, to time.Duration) (at []time.Duration) {
	for t := from + m.Work - before%m.Work; t <= to; t += m.Work {
		at = append(at, t)
	}
	return at
}

// employ has a member's callers work and wait for permits, in turn, until its time
// is over. Who waits then gives up.
func (g *gatherer) employ(ctx context.Context, m Member, w wait) {
	_ = load.Sleep(ctx, g.until(m.From)) // ctx ends with the process
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	over := time.AfterFunc(g.until(g.c.until(m)), cancel)
	defer over.Stop()

	var (
		callers sync.WaitGroup
		trail   = Trail{Index: m.Index}
	)
	if m.Work == 0 {
		trail.Takes = g.c.wishes(m)
	}
	for caller := range m.Callers {
		callers.Go(func() {
			takes, longest := g.loop(ctx, m, caller, w)
			g.mu.Lock()
			defer g.mu.Unlock()
			trail.Takes = append(trail.Takes, takes...)
			g.Lag = max(g.Lag, longest)
		})
	}
	callers.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.Trails = append(g.Trails, trail)
}

// loop is one caller's. It returns what became of the permits that it wanted, and the longest that
// it slept beyond the end of its work: the generator's fault, so the next work is shorter by that.
func (g *gatherer) loop(ctx context.Context, m Member, caller int, w wait) (takes []Take, longest time.Duration) {
	var (
		work   = m.work(g.c.Seed, caller)
		waited time.Duration
	)
	for due := m.From + work(); ctx.Err() == nil; due += work() {
		if left := g.until(due); left > 0 {
			if load.Sleep(ctx, left) != nil {
				break
			}
			longest = max(longest, -g.until(due))
		}
		asked := history.Now()
		granted := g.wait(ctx, w)
		answered := history.Now()
		if m.Work == 0 { // what it wants is known
			takes = append(takes, g.taken(asked, answered, 0, granted))
			continue
		}
		takes = append(takes, g.taken(asked, answered, 1, granted))
		for _, at := range m.missed(waited, time.Duration(asked), time.Duration(answered)) {
			takes = append(takes, g.taken(int64(at), int64(at), 1, 0))
		}
		waited += time.Duration(answered - asked)
		due += time.Duration(answered - asked)
	}
	return takes, longest
}

// wait waits for a permit and returns how many were granted: 0 when the caller's time is over, or
// the call fails.
func (g *gatherer) wait(ctx context.Context, w wait) int64 {
	err := w(ctx)
	switch {
	case err == nil:
		return 1
	case ctx.Err() == nil:
		g.fail(1, err)
		_ = load.Sleep(ctx, failedPause)
	}
	return 0
}
