package faults

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/extent"
	"github.com/shardlimit/shardlimit/internal/history"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/race"
	"github.com/shardlimit/shardlimit/internal/redissim"
	"github.com/shardlimit/shardlimit/script"
)

// ice holds a process: what it was about to send, it sends when the ice melts.
type ice struct{ melts atomic.Pointer[chan struct{}] }

func (i *ice) freeze() {
	melts := make(chan struct{})
	i.melts.Store(&melts)
}

func (i *ice) melt() {
	if melts := i.melts.Swap(nil); melts != nil {
		close(*melts)
	}
}

func (i *ice) hold() {
	if melts := i.melts.Load(); melts != nil {
		<-*melts
	}
}

// A process leads a change and is frozen with its proposals under way, while another process
// replaces the change and the shards of the first one expire. When the process goes on, so does its
// driver: it sends what it had decided to send. No shard gets a share of the old layout.
func TestADriverThatWasFrozenBringsNoOldShareBack(t *testing.T) {
	const way = 5 * time.Millisecond
	for i := range 24 { // by when the process is frozen: from before the record is written until all is settled
		if !extent.Plays(i + 1) {
			continue
		}
		for _, suspended := range []bool{false, true} {
			if !extent.Full && suspended != (i%2 == 1) {
				continue
			}
			t.Run(fmt.Sprint(time.Duration(i)*way, suspended), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { thawADriver(t, time.Duration(i)*way, way, suspended) })
			})
		}
	}
}

func thawADriver(t *testing.T, after, way time.Duration, suspended bool) {
	race.OneProcessor(t)
	const rest = 30 * time.Hour // a state lives for a day
	limit := shardlimit.Limit{Permits: 200, Per: 20 * time.Millisecond, Shards: 2}
	many, one := limit, limit
	many.Shards, one.Shards = 6, 1
	var servers []*redissim.Server
	for range 2 {
		s := redissim.NewServer(time.Now)
		s.Restart() // it has just been started
		go s.Serve()
		defer s.Close()
		servers = append(servers, s)
	}
	process := func(hold func()) (*shardlimit.Client, *shardlimit.Limiter) {
		f := limittest.Fleet{Prefix: "b:", Punctual: true}
		fate := func([]string) redissim.Fate { return redissim.Fate{There: way, Back: way} }
		for i, s := range servers {
			f.Nodes = append(f.Nodes,
				shardlimit.Node{Name: fmt.Sprint("n", i), Client: redissim.NewLink(s, fate, hold)})
		}
		c := f.Client(t)
		return c, limittest.Limiter(t, c, "l", limit)
	}
	var frozen ice
	ca, a := process(frozen.hold)
	cb, b := process(func() {})
	defer ca.Close()
	defer cb.Close()
	all := takings{begun: time.Now()}
	all.take(t, a, 10)
	time.Sleep(time.Second)

	var calls sync.WaitGroup
	defer calls.Wait()
	defer frozen.melt()
	calls.Go(func() { _ = a.SetLimit(t.Context(), many) })
	time.Sleep(after)
	frozen.freeze()
	time.Sleep(time.Second)
	if err := b.SetLimit(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	limittest.Settled(t, b)
	for range 20 {
		time.Sleep(rest / 20)
		all.take(t, b, 1)
	}
	before := sharesOf(t, servers)
	if len(before) != 1 {
		t.Fatalf("shares before the process goes on: %+v", before)
	}
	if suspended {
		limittest.Suspend(ca, rest)
	}
	all.ops = nil
	frozen.melt()
	asked := make(chan history.Op, 100)
	calls.Go(func() {
		defer close(asked)
		for range cap(asked) {
			start := time.Since(all.begun)
			if d, err := a.AllowUpTo(context.Background(), 200); err == nil {
				asked <- history.Op{Start: int64(start), End: int64(time.Since(all.begun)), Permits: d.Granted}
			}
		}
	})
	for range 100 {
		time.Sleep(way)
		sum, now := int64(0), sharesOf(t, servers)
		for _, s := range now {
			if sum += s.Share; sum > limit.Permits || s.Epoch < before[0].Epoch {
				t.Fatalf("shares before the process went on: %+v\nand now: %+v", before, now)
			}
		}
		all.take(t, b, 20)
	}
	for op := range asked {
		all.ops = append(all.ops, op)
	}
	all.holds(t, one)
}

// sharesOf are the states of the shards that have a share.
func sharesOf(t *testing.T, servers []*redissim.Server) (states []script.PeekReply) {
	t.Helper()
	for _, s := range servers {
		endpoint := script.NewEndpoint(s.Direct())
		for _, key := range s.Keys() {
			if !isHead(key) {
				continue
			}
			tag := key[strings.Index(key, "{")+1 : strings.Index(key, "}")]
			state, err := endpoint.Peek(t.Context(), script.ShardKeys("b:", tag, "n:l"))
			if err != nil {
				t.Fatal(err)
			}
			if state.Share > 0 {
				states = append(states, state)
			}
		}
	}
	return states
}
