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

// wishes are what a member's callers would ask for if each permit came at once:
// takes that get nothing. Callers that do not work in between want whatever there is,
// so the whole limit. What is really asked for comes later, and is less, by the
// time that they wait.
func (c *Crowd) wishes(m Member) (wishes []Take) {
	end := c.until(m)
	wish := func(at time.Duration, permits int64) {
		wishes = append(wishes, Take{At: at.Microseconds(), End: at.Microseconds(), Wanted: permits})
	}
	if m.Work == 0 {
		all := (c.Permits*int64(c.Tick) + int64(c.Per) - 1) / int64(c.Per)
		for at := m.From; at < end; at += c.Tick {
			wish(at, all)
		}
		return wishes
	}
	for caller := range m.Callers {
		work := m.work(c.Seed, caller)
		for at := m.From + work(); at < end; at += work() {
			wish(at, 1)
		}
	}
	return wishes
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
		trail   = Trail{Index: m.Index, Takes: g.c.wishes(m)}
	)
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

// loop is one caller's loop. It returns the permits that it got, and the longest that it
// slept beyond the end of its work: the generator's fault, so the next work is
// shorter by that.
func (g *gatherer) loop(ctx context.Context, m Member, caller int, w wait) (takes []Take, longest time.Duration) {
	work := m.work(g.c.Seed, caller)
	for due := m.From + work(); ctx.Err() == nil; due += work() {
		if left := g.until(due); left > 0 {
			if load.Sleep(ctx, left) != nil {
				return takes, longest
			}
			longest = max(longest, -g.until(due))
		}
		asked := history.Now()
		err := w(ctx)
		answered := history.Now()
		if ctx.Err() != nil && err != nil {
			return takes, longest
		}
		if err != nil {
			g.fail(1, err)
			_ = load.Sleep(ctx, failedPause)
			answered = history.Now()
		} else {
			takes = append(takes, g.taken(asked, answered, 0, 1))
		}
		due += time.Duration(answered - asked)
	}
	return takes, longest
}
