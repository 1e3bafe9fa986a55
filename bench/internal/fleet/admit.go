package fleet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/bench/internal/load"
	"github.com/shardlimit/shardlimit/bench/internal/replay"
	"github.com/shardlimit/shardlimit/bench/internal/server"
)

const (
	// callTimeout is far above what a call takes on a node that gets a fortieth of
	// a core, beside whatever else the machine does: what is measured is throughput,
	// not patience.
	callTimeout = 20 * time.Second
	// rehearsalPause is how long a caller whose first call failed waits before it
	// tries again: a node that was too slow for it is left alone for a while.
	rehearsalPause = 200 * time.Millisecond
)

// errDenied means that a decision was no, where none should be.
var errDenied = errors.New("denied, although the limit is out of reach")

// take makes n calls for a permit each at once and returns how many were granted.
type take func(ctx context.Context, n int64) (granted int64, err error)

// wait blocks until a permit has been granted, or ctx ends.
type wait func(ctx context.Context) error

// ways are how a member gets permits.
type ways struct {
	take take
	wait wait
}

// admit connects the members of a crowd and makes each one's ways.
func admit(ctx context.Context, c Crowd) (_ []ways, end func(), err error) {
	a := admission{Crowd: c}
	defer func() {
		if err != nil {
			a.end()
		}
	}()
	var (
		connecting sync.WaitGroup
		errs       = make([]error, len(c.Members))
		ways       = make([]ways, len(c.Members))
	)
	for i, m := range c.Members {
		connecting.Go(func() { ways[i], errs[i] = a.member(ctx, m) })
		if c.Kind != Coalesced {
			connecting.Wait() // one after the other, as they share what they are connected with
		}
	}
	connecting.Wait()
	if err = errors.Join(errs...); err == nil && c.Decide {
		err = a.rehearse(ctx, ways)
	}
	return ways, a.end, err
}

// admission is what the members of a process are connected with.
type admission struct {
	Crowd
	mu     sync.Mutex
	ends   []func()
	shards []*replay.Shard // of callers that decide
}

func (a *admission) atEnd(end func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ends = append(a.ends, end)
}

func (a *admission) end() {
	for _, end := range a.ends {
		end()
	}
}

func (a *admission) member(ctx context.Context, m Member) (ways, error) {
	switch a.Kind {
	case Coalesced:
		return a.limiter(ctx, m)
	case FirstCome:
		return a.firstCome()
	}
	return ways{}, fmt.Errorf("no crowd is of the kind %q", a.Kind)
}

// option connects with one connection and small buffers: a worker holds many.
func option(addr string) rueidis.ClientOption {
	o := server.Option(addr)
	o.PipelineMultiplex = -1
	o.ReadBufferEachConn, o.WriteBufferEachConn = 16<<10, 16<<10
	o.Dialer.Timeout = callTimeout
	o.ConnWriteTimeout = callTimeout
	return o
}

// limiter makes single calls, as programs do.
func (a *admission) limiter(ctx context.Context, m Member) (ways, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	config := shardlimit.Config{Participant: m.Name, Weight: m.Weight, CallTimeout: callTimeout}
	for i, addr := range a.Addrs { // names are alike in every run, so that placement is
		config.Nodes = append(config.Nodes, shardlimit.Node{Name: fmt.Sprintf("node-%d", i), Redis: option(addr)})
	}
	client, err := shardlimit.New(config)
	if err != nil {
		return ways{}, err
	}
	a.atEnd(client.Close)
	limiter, err := client.Limiter(ctx, a.Limit, shardlimit.Limit{Permits: a.Permits, Per: a.Per, Shards: a.Shards})
	if err != nil {
		return ways{}, err
	}
	if a.Decide {
		return ways{wait: func(ctx context.Context) error {
			d, err := limiter.Allow(ctx)
			if err == nil && !d.Allowed {
				err = errDenied
			}
			return err
		}}, nil
	}
	return ways{limiterTake(limiter), limiter.Wait}, nil
}

func limiterTake(limiter *shardlimit.Limiter) take {
	return func(ctx context.Context, n int64) (granted int64, err error) {
		var (
			mu    sync.Mutex
			calls sync.WaitGroup
		)
		for range n {
			calls.Go(func() {
				d, failed := limiter.Allow(ctx)
				mu.Lock()
				defer mu.Unlock()
				granted += d.Granted
				if failed != nil {
					err = failed
				}
			})
		}
		calls.Wait()
		return granted, err
	}
}

// firstCome asks our script for all at once. Who waits comes again when the next permits leave the
// log. Callers that decide share the connections of their process, over which rueidis pipelines.
func (a *admission) firstCome() (ways, error) {
	shards := a.shards
	for i := 0; len(shards) < a.Shards; i++ {
		client, err := rueidis.NewClient(option(a.Addrs[i]))
		if err != nil {
			return ways{}, err
		}
		a.atEnd(client.Close)
		for k := i; k < a.Shards; k += len(a.Addrs) {
			shard, err := replay.NewShard(client, fmt.Sprint(a.Limit, "-", k), a.Permits/int64(a.Shards), a.Per)
			if err != nil {
				return ways{}, err
			}
			shards = append(shards, shard)
		}
	}
	if a.Decide {
		a.shards = shards
	}
	// Chance keeps thousands of callers from walking in step.
	some := func() *replay.Shard { return shards[rand.IntN(len(shards))] }
	return ways{
		func(ctx context.Context, n int64) (int64, error) { return some().Take(ctx, 1, n) },
		func(ctx context.Context) error {
			for {
				granted, after, err := some().Try(ctx)
				if granted || err != nil {
					return err
				}
				if err := load.Sleep(ctx, after); err != nil {
					return err
				}
			}
		},
	}, nil
}

// rehearse makes one call from every caller, all at once: enough for a
// participant to use every shard it will use. A node that is held to a small part of
// a processor may be too slow for the first: it compiles the scripts. They are tried
// again for half of the crowd's life.
func (a *admission) rehearse(ctx context.Context, all []ways) error {
	ctx, cancel := context.WithTimeout(ctx, a.Life/2)
	defer cancel()
	var calls sync.WaitGroup
	var failed atomic.Pointer[error]
	for i, m := range a.Members {
		for range m.Callers {
			calls.Go(func() {
				err := all[i].wait(ctx)
				for err != nil && load.Sleep(ctx, rehearsalPause) == nil {
					err = all[i].wait(ctx)
				}
				if err != nil {
					err = fmt.Errorf("first call of %s: %w", m.Name, err)
					failed.Store(&err)
				}
			})
		}
	}
	calls.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}
