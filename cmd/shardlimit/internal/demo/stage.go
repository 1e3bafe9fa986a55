// Package demo shows a limit at work: embedded Redis nodes, a fleet of unequal
// workers that want more than there is, a limit that changes and a node that
// goes away and comes back on the way, and at the end a verdict from the
// recorded history.
package demo

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/spelling"
	"github.com/shardlimit/shardlimit/embedded"
	"github.com/shardlimit/shardlimit/internal/history"
)

// Config of a demo. All fields are required; Run refuses what cannot work.
type Config struct {
	For     time.Duration // it runs
	Rate    spelling.Rate // in a window of ShortestWindow or more
	Shards  int           // 0: chosen
	Nodes   int
	Workers int // 1 to MaxWorkers
}

const (
	// MaxWorkers is the most workers that fit on a screen.
	MaxWorkers = 64
	// ShortestWindow is that of a rate: in less, parts of workers are fractions of permits.
	ShortestWindow = 100 * time.Millisecond

	frameEvery = 100 * time.Millisecond
	limitName  = "demo"
	// loweredTo is the part of the limit that it is lowered to.
	loweredTo = 0.6
	// callTimeout is long, because nodes, workers and screen share the processors
	// of this machine, which may have other things to do.
	callTimeout = time.Second
)

// stage is a running demo.
type stage struct {
	config   Config
	servers  *embedded.Servers
	client   *shardlimit.Client
	observer *shardlimit.Limiter // of nobody in the fleet
	workers  []*worker
	phases   []phase
}

// phase is a stretch of the demo under one limit. All times are in ns by history.Now.
type phase struct {
	text  string // what began it
	limit int64  // permits per window
	away  int64  // permits of the limit that are on nodes that are away

	asked int64 // when the change that began it was begun
	done  int64 // when that change was complete
	until int64 // when the change that ended it was begun
}

// Run runs a demo until its time is over or ctx is done, and returns the
// verdict. Ten times a second it has show tell how it is going. The error is for a demo that could
// not be played at all.
func Run(ctx context.Context, c Config, show func(Snapshot)) (Verdict, error) {
	s, err := newStage(ctx, c)
	if err != nil {
		return Verdict{}, err
	}
	defer s.close()
	// No deadline: the last waiters would be told at once that they cannot make it.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer time.AfterFunc(c.For, cancel).Stop()
	s.play(ctx, show)
	return s.verdict(), nil
}

func newStage(ctx context.Context, c Config) (*stage, error) {
	servers, err := embedded.Start(c.Nodes)
	if err != nil {
		return nil, err
	}
	s := &stage{config: c, servers: servers}
	if err := s.prepare(ctx); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// prepare declares the limit and makes the fleet.
func (s *stage) prepare(ctx context.Context) (err error) {
	limit := shardlimit.Limit{Permits: s.config.Rate.Permits, Per: s.config.Rate.Per, Shards: s.config.Shards}
	if s.client, s.observer, err = s.join(ctx, "observer", limit); err != nil {
		return err
	}
	for i := range s.config.Workers {
		w := newWorker(i, s.config.Workers, s.observer.Limit())
		if w.client, w.limiter, err = s.join(ctx, w.name, limit); err != nil {
			return err
		}
		s.workers = append(s.workers, w)
	}
	return nil
}

// join opens the limit as somebody, with a client of their own.
func (s *stage) join(ctx context.Context, who string, limit shardlimit.Limit) (*shardlimit.Client,
	*shardlimit.Limiter, error) {
	client, err := shardlimit.New(shardlimit.Config{Nodes: s.servers.Nodes(), Participant: who,
		CallTimeout: callTimeout})
	if err != nil {
		return nil, nil, err
	}
	limiter, err := client.Limiter(ctx, limitName, limit)
	if err != nil {
		client.Close()
		return nil, nil, err
	}
	return client, limiter, nil
}

func (s *stage) close() {
	for _, w := range s.workers {
		w.client.Close()
	}
	if s.client != nil {
		s.client.Close()
	}
	s.servers.Close()
}

// play runs the fleet, the acts and the show until ctx is done and all have ended.
func (s *stage) play(ctx context.Context, show func(Snapshot)) {
	var running sync.WaitGroup
	for _, w := range s.workers {
		running.Go(func() { w.run(ctx) })
	}
	began, now, acts := time.Now(), history.Now(), s.acts()
	s.phases = []phase{{limit: s.config.Rate.Permits, asked: now, done: now}}
	var state shardlimit.State
	tick := time.NewTicker(frameEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		if elapsed := time.Since(began); len(acts) > 0 && elapsed >= acts[0].at {
			s.perform(ctx, acts[0])
			acts = acts[1:]
		}
		if seen, err := s.observer.Peek(ctx); err == nil {
			state = seen
		}
		for _, w := range s.workers {
			w.measure(time.Now())
		}
		show(s.snapshot(time.Since(began), state))
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	running.Wait()
	s.phases[len(s.phases)-1].until = history.Now()
}

// act is something the demo does on the way.
type act struct {
	at   time.Duration
	text string
	do   func(context.Context, *phase) error // and say how the phase that begins differs from the last
}

// acts are spread over the time of the demo.
func (s *stage) acts() []act {
	part := func(p float64) time.Duration { return time.Duration(p * float64(s.config.For)) }
	full := s.config.Rate
	low := spelling.Rate{Permits: max(1, int64(float64(full.Permits)*loweredTo)), Per: full.Per}
	all := []act{{part(0.25), "limit lowered to " + low.String(), s.setLimit(low)}}
	if s.config.Nodes > 1 {
		node := s.config.Nodes - 1
		all = append(all,
			act{part(0.45), nodeName(node) + " away", func(ctx context.Context, p *phase) error {
				p.away = s.shareOf(ctx, node)
				return s.servers.Stop(node)
			}},
			act{part(0.6), nodeName(node) + " back", func(_ context.Context, p *phase) error {
				p.away = 0
				return s.servers.Resume(node)
			}})
	}
	return append(all, act{part(0.75), "limit raised to " + full.String(), s.setLimit(full)})
}

func (s *stage) setLimit(to spelling.Rate) func(context.Context, *phase) error {
	return func(ctx context.Context, p *phase) error {
		p.limit = to.Permits
		limit := s.observer.Limit()
		limit.Permits = to.Permits
		return s.observer.SetLimit(ctx, limit)
	}
}

// perform does an act, with which a phase begins. A change that failed may still happen, so its
// phase is judged by the larger limit.
func (s *stage) perform(ctx context.Context, a act) {
	last := &s.phases[len(s.phases)-1]
	next := phase{text: a.text, limit: last.limit, away: last.away, asked: history.Now()}
	if err := a.do(ctx, &next); err != nil {
		next.text = fmt.Sprintf("%s: %v", a.text, err)
		next.limit = max(next.limit, last.limit)
	}
	next.done, last.until = history.Now(), next.asked
	s.phases = append(s.phases, next)
}

// shareOf is what the shards of a node have of the limit.
func (s *stage) shareOf(ctx context.Context, node int) (n int64) {
	state, _ := s.observer.Peek(ctx) // without one the parts of the verdict are too large
	for _, sh := range state.Shards {
		if sh.Node == s.servers.Nodes()[node].Name {
			n += sh.Target
		}
	}
	return n
}

func nodeName(i int) string { return fmt.Sprintf("node %d", i+1) }
