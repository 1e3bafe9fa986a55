package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/rate"
	"github.com/shardlimit/shardlimit/internal/history"
)

// act is something the demo does on the way.
type act struct {
	at time.Duration
	// do makes the change and describes the phase that begins with it.
	do func(context.Context) (phase, error)
}

// loweredTo is the part of the limit that it is lowered to.
const loweredTo = 0.6

// acts are spread over the time of the demo.
func (s *stage) acts() []act {
	part := func(p float64) time.Duration { return time.Duration(p * float64(s.config.For)) }
	full := s.config.Rate
	low := rate.Rate{Permits: max(1, int64(float64(full.Permits)*loweredTo)), Per: full.Per}
	all := []act{{part(0.25), s.setLimit("limit lowered to "+low.String(), low)}}
	if s.config.Nodes > 1 {
		node := s.config.Nodes - 1
		all = append(all, act{part(0.45), s.stop(node)}, act{part(0.6), s.resume(node)})
	}
	return append(all, act{part(0.75), s.setLimit("limit raised to "+full.String(), full)})
}

func (s *stage) setLimit(text string, to rate.Rate) func(context.Context) (phase, error) {
	return func(ctx context.Context) (phase, error) {
		limit := s.observer.Limit()
		limit.Permits = to.Permits
		p := phase{text: text, limit: to.Permits, asked: history.Now()}
		err := s.observer.SetLimit(ctx, limit)
		p.done = history.Now()
		return p, err
	}
}

// stop makes a node go away, with the shards it has.
func (s *stage) stop(node int) func(context.Context) (phase, error) {
	return func(ctx context.Context) (phase, error) {
		limit := s.observer.Limit().Permits
		p := phase{text: nodeName(node) + " away", limit: limit, away: s.shareOf(ctx, node), asked: history.Now()}
		err := s.servers.Stop(node)
		p.done = history.Now()
		return p, err
	}
}

func (s *stage) resume(node int) func(context.Context) (phase, error) {
	return func(context.Context) (phase, error) {
		p := phase{text: nodeName(node) + " back", limit: s.observer.Limit().Permits, asked: history.Now()}
		err := s.servers.Resume(node)
		p.done = history.Now()
		return p, err
	}
}

// shareOf is what the shards of a node have of the limit.
func (s *stage) shareOf(ctx context.Context, node int) int64 {
	state, err := s.observer.Peek(ctx)
	if err != nil {
		return 0
	}
	var n int64
	for _, sh := range state.Shards {
		if sh.Node == s.servers.Nodes()[node].Name {
			n += sh.Target
		}
	}
	return n
}

func nodeName(i int) string { return fmt.Sprintf("node %d", i+1) }
