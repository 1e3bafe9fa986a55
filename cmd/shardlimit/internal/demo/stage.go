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
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/rate"
	"github.com/shardlimit/shardlimit/embedded"
	"github.com/shardlimit/shardlimit/internal/history"
)

// Config of a demo. All fields are required; Run refuses what cannot work.
type Config struct {
	For     time.Duration // it runs
	Rate    rate.Rate
	Shards  int // 0: chosen
	Nodes   int
	Workers int // 1 to MaxWorkers
}

// MaxWorkers is the most workers that fit on a screen.
const MaxWorkers = 64

const (
	frameEvery = 100 * time.Millisecond
	peekEvery  = 250 * time.Millisecond
)

// stage is a running demo.
type stage struct {
	config   Config
	servers  *embedded.Servers
	client   *shardlimit.Client
	observer *shardlimit.Limiter // of nobody in the fleet
	fleet    *fleet
	began    time.Time

	mu     sync.Mutex
	phases []phase
	events []Event
	peeked shardlimit.State
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
func (s *stage) prepare(ctx context.Context) error {
	limit := shardlimit.Limit{Permits: s.config.Rate.Permits, Per: s.config.Rate.Per, Shards: s.config.Shards}
	var err error
	if s.client, err = shardlimit.New(shardlimit.Config{Nodes: s.servers.Nodes(), Participant: "observer",
		CallTimeout: callTimeout}); err != nil {
		return err
	}
	if s.observer, err = s.client.Limiter(ctx, limitName, limit); err != nil {
		return err
	}
	s.fleet, err = newFleet(ctx, s.servers.Nodes, s.observer.Limit(), s.config.Workers)
	return err
}

func (s *stage) close() {
	if s.fleet != nil {
		s.fleet.close()
	}
	if s.client != nil {
		s.client.Close()
	}
	s.servers.Close()
}

// play runs the fleet, the acts and the show until ctx is done and all have ended.
func (s *stage) play(ctx context.Context, show func(Snapshot)) {
	s.began = time.Now()
	now := history.Now()
	s.phases = []phase{{text: "limit " + s.config.Rate.String(), limit: s.config.Rate.Permits, asked: now, done: now}}
	var others sync.WaitGroup
	s.fleet.start(ctx)
	others.Go(func() { s.perform(ctx) })
	others.Go(func() { s.watch(ctx) })
	s.show(ctx, show)
	others.Wait()
	s.fleet.running.Wait()
	s.phases[len(s.phases)-1].until = history.Now()
}

// perform does the acts in their time.
func (s *stage) perform(ctx context.Context) {
	for _, a := range s.acts() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(s.began.Add(a.at))):
		}
		next, err := a.do(ctx)
		if ctx.Err() != nil && err != nil {
			// It may have happened or not: what follows is judged by the larger limit.
			next.limit = max(next.limit, s.phases[len(s.phases)-1].limit)
			err = nil
		}
		s.enter(next, err)
	}
}

// enter begins a phase. A change that failed may still happen, so its phase is
// judged by the larger limit.
func (s *stage) enter(next phase, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := &s.phases[len(s.phases)-1]
	if err != nil {
		next.text = fmt.Sprintf("%s: %v", next.text, err)
		next.limit = max(next.limit, last.limit)
	}
	last.until = next.asked
	s.phases = append(s.phases, next)
	s.events = append(s.events, Event{At: time.Since(s.began), Text: next.text})
}

// watch looks at the shards again and again.
func (s *stage) watch(ctx context.Context) {
	tick := time.NewTicker(peekEvery)
	defer tick.Stop()
	for {
		if state, err := s.observer.Peek(ctx); err == nil && ctx.Err() == nil {
			s.mu.Lock()
			s.peeked = state
			s.mu.Unlock()
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// show shows snapshots until ctx is done.
func (s *stage) show(ctx context.Context, show func(Snapshot)) {
	tick := time.NewTicker(frameEvery)
	defer tick.Stop()
	over := min(max(s.config.Rate.Per, time.Second), 10*time.Second)
	got, asked := speeds{over: over}, speeds{over: over}
	for {
		elapsed := time.Since(s.began)
		show(s.snapshot(elapsed, got.add(elapsed, s.fleet.admitted()), asked.add(elapsed, s.fleet.asked())))
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
