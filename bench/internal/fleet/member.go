package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/load"
	"github.com/shardlimit/shardlimit/internal/history"
)

// memberTicks bounds the ticks of a member whose calls are under way.
const memberTicks = 64

// take makes n calls for a permit each at once and returns how many were granted.
type take func(ctx context.Context, n int64) (granted int64, err error)

// attend plays one process's members of a crowd, as its parent says.
func attend(c Crowd, orders *json.Decoder, replies *json.Encoder) error {
	watchdog := time.AfterFunc(c.Life, func() {
		fmt.Fprintln(os.Stderr, "bench worker: its time is over")
		os.Exit(1)
	})
	defer watchdog.Stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ways, end, err := admit(ctx, c)
	if err != nil {
		return err
	}
	defer end()
	if err := replies.Encode(reply{Ready: true}); err != nil {
		return err
	}
	begin, err := expect(orders, wordRun)
	if err != nil {
		return err
	}
	cpu := load.CPU()
	g := &gatherer{c: &c, begin: begin}
	var members sync.WaitGroup
	for i, m := range c.Members {
		members.Go(func() {
			if m.Callers > 0 {
				g.employ(ctx, m, ways[i].wait)
			} else {
				g.play(ctx, m, ways[i].take)
			}
		})
	}
	members.Wait()
	g.CPU = load.CPU() - cpu
	return replies.Encode(reply{Gathering: &g.Gathering})
}

// gatherer collects what became of the members' calls.
type gatherer struct {
	c     *Crowd
	begin int64 // by history.Now

	mu sync.Mutex
	Gathering
}

// play makes the calls of a member without callers: it looks when one is due, at most once in a
// tick, and makes all that are due by then together.
func (g *gatherer) play(ctx context.Context, m Member, t take) {
	if m.Rate <= 0 {
		return
	}
	var (
		end      = g.c.until(m)
		arrivals = m.arrivals(g.c.Seed)
		due      = m.From + arrivals().At
		trail    = &Trail{Index: m.Index}
		underway atomic.Int64
		calls    sync.WaitGroup
		longest  time.Duration
		unsent   int64
	)
	// Members begin at different times within a tick, or they would all look at the same instants.
	for look := m.From + g.c.Tick*time.Duration(m.Index%16)/16; ; look += g.c.Tick {
		look = max(look, due)
		if look >= end {
			break
		}
		_ = load.Sleep(ctx, g.until(look)) // ctx ends with the process
		longest = max(longest, -g.until(look))
		n := int64(0)
		for ; due <= look; due = m.From + arrivals().At {
			n++
		}
		if underway.Load() >= memberTicks {
			unsent += n
			continue
		}
		underway.Add(1)
		calls.Go(func() {
			g.call(ctx, trail, t, n)
			underway.Add(-1)
		})
	}
	calls.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.Trails = append(g.Trails, *trail)
	g.Unsent += unsent
	g.Lag = max(g.Lag, longest)
}

// arrivals are the instants of a member's calls since it came, the same ones for
// the same seed of the crowd.
func (m Member) arrivals(seed uint64) load.Arrivals {
	seed = seed<<16 + uint64(m.Index)
	if !m.Even {
		return load.Poisson(m.Rate, load.Zipf(1, 0), seed)
	}
	even := load.Even(m.Rate, 1)
	phase := time.Duration(rand.New(rand.NewPCG(seed, 0)).Float64() / m.Rate * float64(time.Second))
	return func() load.Arrival {
		a := even()
		a.At += phase
		return a
	}
}

// until is how long it still is until a time since the beginning.
func (g *gatherer) until(at time.Duration) time.Duration {
	return time.Duration(g.begin + int64(at) - history.Now())
}

func (g *gatherer) call(ctx context.Context, trail *Trail, t take, n int64) {
	at := history.Now()
	granted, err := t(ctx, n)
	end := history.Now()
	if err != nil {
		g.fail(n-granted, err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	trail.Takes = append(trail.Takes, g.taken(at, end, n, granted))
}

func (g *gatherer) fail(calls int64, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.Failed += calls
	g.Err = err.Error()
}

// taken is a take between two instants of history.Now. Its times are rounded so that the span
// holds the calls: a verdict on a limit must be no false alarm.
func (g *gatherer) taken(from, to, wanted, granted int64) Take {
	return Take{At: (from - g.begin) / 1000, End: (to-g.begin)/1000 + 1, Wanted: wanted, Granted: granted}
}
