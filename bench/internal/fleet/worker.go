package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/load"
	"github.com/shardlimit/shardlimit/internal/history"
)

const (
	// memberTicks bounds the ticks of a member whose calls are under way.
	memberTicks = 64
	// failedPause is how long a caller whose wait failed leaves the servers alone.
	failedPause = 100 * time.Millisecond
)

// ServeIfWorker does nothing, unless this process was started as a worker: then
// it does what its parent orders and ends the process. Call it before anything else.
func ServeIfWorker() {
	if os.Getenv(environment) == "" {
		return
	}
	signal.Ignore(os.Interrupt) // a terminal sends it to parent and workers alike; the parent decides
	if err := serve(os.Stdin, os.NewFile(replyFile, "replies")); err != nil {
		fmt.Fprintln(os.Stderr, "bench worker:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serve plays crowds until in ends.
func serve(in io.Reader, out io.Writer) error {
	orders, replies := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var o order
		err := orders.Decode(&o)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil && o.Crowd == nil {
			err = errors.New("ordered to begin without a crowd")
		}
		if err == nil {
			err = attend(*o.Crowd, orders, replies)
		}
		if err != nil {
			_ = replies.Encode(reply{Err: err.Error()})
			return err
		}
	}
}

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
	var o order
	if err := orders.Decode(&o); err != nil || o.Begin == 0 {
		return errors.Join(errors.New("not ordered to begin"), err)
	}
	g := &gatherer{c: &c, begin: o.Begin, now: history.Now}
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
	return replies.Encode(reply{Gathering: &g.Gathering})
}

// gatherer collects what became of the members' calls.
type gatherer struct {
	c     *Crowd
	begin int64        // by now
	now   func() int64 // history.Now, ns

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
		if look >= g.c.For {
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

func (g *gatherer) call(ctx context.Context, trail *Trail, t take, n int64) {
	at := g.now()
	granted, err := t(ctx, n)
	end := g.now()
	if err != nil {
		g.fail(n-granted, err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	trail.Takes = append(trail.Takes, g.taken(at, end, n, granted))
}

// employ has a member's callers work and wait for permits, in turn, until the time
// is over. Who waits then gives up.
func (g *gatherer) employ(ctx context.Context, m Member, w wait) {
	_ = load.Sleep(ctx, g.until(m.From)) // ctx ends with the process
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	over := time.AfterFunc(g.until(g.c.For), cancel)
	defer over.Stop()

	var (
		callers sync.WaitGroup
		trail   = Trail{Index: m.Index}
	)
	if m.Work == 0 && !g.c.Decide {
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
		asked := g.now()
		granted := g.wait(ctx, w)
		answered := g.now()
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

// until is how long it still is until a time since the beginning.
func (g *gatherer) until(at time.Duration) time.Duration {
	return time.Duration(g.begin + int64(at) - g.now())
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
