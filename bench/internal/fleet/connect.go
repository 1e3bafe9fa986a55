package fleet

import (
	"context"
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

// NodeName is the name of node i, in every process and every run the same, so
// that placement and routing are.
func NodeName(i int) string { return fmt.Sprintf("node-%d", i) }

// option connects with one connection and small buffers: a worker holds many.
func option(addr string) rueidis.ClientOption {
	o := server.Option(addr)
	o.PipelineMultiplex = -1
	o.ReadBufferEachConn, o.WriteBufferEachConn = 16<<10, 16<<10
	o.Dialer.Timeout = callTimeout
	o.ConnWriteTimeout = callTimeout
	return o
}

// callers are the decision functions of a job.
type callers struct {
	allows []allow // one a participant
	large  allow   // nil if the job has none
}

// connect makes the decision functions of a job and has each used once, so that
// what follows finds everything connected.
func connect(ctx context.Context, j Job) (all callers, end func(), err error) {
	var ends []func()
	end = func() {
		for _, e := range ends {
			e()
		}
	}
	switch j.Kind {
	case Coalesced, Waiting:
		for i, p := range j.Participants {
			client, err := shardlimit.New(config(j, p))
			if err != nil {
				end()
				return all, nil, err
			}
			ends = append(ends, client.Close)
			limiter := declared(client, j)
			if j.Kind == Coalesced {
				all.allows = append(all.allows, coalesced(limiter))
				continue
			}
			all.allows = append(all.allows, waiting(limiter, 1))
			if i == 0 && j.Large > 0 {
				all.large = inTurns(limiter, j.Large)
			}
		}
	case Plain:
		shards, close, err := plainShards(j)
		if err != nil {
			return all, nil, err
		}
		ends = append(ends, close)
		for range j.Participants {
			all.allows = append(all.allows, plain(shards))
		}
	default:
		return all, nil, fmt.Errorf("no kind of job is named %q", j.Kind)
	}
	if err := rehearse(ctx, j, all.allows); err != nil {
		end()
		return all, nil, err
	}
	return all, end, nil
}

func config(j Job, participant string) shardlimit.Config {
	c := shardlimit.Config{Participant: participant, CallTimeout: callTimeout}
	for i, addr := range j.Addrs {
		c.Nodes = append(c.Nodes, shardlimit.Node{Name: NodeName(i), Redis: option(addr)})
	}
	return c
}

// declared declares the limit with the first call, and with the next if that failed.
func declared(client *shardlimit.Client, j Job) func() (*shardlimit.Limiter, error) {
	var (
		mu      sync.Mutex
		limiter atomic.Pointer[shardlimit.Limiter]
	)
	return func() (*shardlimit.Limiter, error) {
		if l := limiter.Load(); l != nil {
			return l, nil
		}
		mu.Lock()
		defer mu.Unlock()
		if l := limiter.Load(); l != nil {
			return l, nil
		}
		ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
		defer cancel()
		l, err := client.Limiter(ctx, j.Limit, shardlimit.Limit{Permits: j.Permits, Per: j.Per, Shards: j.Shards})
		if err == nil {
			limiter.Store(l)
		}
		return l, err
	}
}

func coalesced(declared func() (*shardlimit.Limiter, error)) allow {
	return func(ctx context.Context) (bool, error) {
		limiter, err := declared()
		if err != nil {
			return false, err
		}
		d, err := limiter.Allow(ctx)
		return d.Allowed, err
	}
}

func waiting(declared func() (*shardlimit.Limiter, error), n int64) allow {
	return func(ctx context.Context) (bool, error) {
		limiter, err := declared()
		if err == nil {
			err = limiter.WaitN(ctx, n)
		}
		return err == nil, err
	}
}

// largeParticipants is how many take turns to want many permits: so many that each has paid for the
// last ones when its turn comes again.
const largeParticipants = 20

// inTurns waits for n permits, each time for another participant. It makes one call at a time.
func inTurns(declared func() (*shardlimit.Limiter, error), n int64) allow {
	turn := 0
	return func(ctx context.Context) (bool, error) {
		limiter, err := declared()
		if err == nil {
			turn++
			err = limiter.As(fmt.Sprint("large-", turn%largeParticipants), 1).WaitN(ctx, n)
		}
		return err == nil, err
	}
}

// plainShards makes the shards of a limit, dealt out to the nodes in turns.
func plainShards(j Job) (shards []*replay.Shard, end func(), err error) {
	var clients []rueidis.Client
	end = func() {
		for _, c := range clients {
			c.Close()
		}
	}
	for _, addr := range j.Addrs {
		client, err := rueidis.NewClient(option(addr))
		if err != nil {
			end()
			return nil, nil, err
		}
		clients = append(clients, client)
	}
	for i := range j.Shards {
		s, err := replay.NewShard(clients[i%len(clients)], fmt.Sprintf("%s-%d", j.Limit, i), j.Permits/int64(j.Shards),
			j.Per)
		if err != nil {
			end()
			return nil, nil, err
		}
		shards = append(shards, s)
	}
	return shards, end, nil
}

func plain(shards []*replay.Shard) allow {
	return func(ctx context.Context) (bool, error) {
		// Chance keeps thousands of callers from walking in step.
		granted, err := shards[rand.IntN(len(shards))].Take(ctx, 1)
		return granted > 0, err
	}
}

// rehearse makes one call from every caller, all at once: enough for a
// participant to use every shard it will use. A node that is held to a small part of
// a processor may be too slow for the first: it compiles the scripts. They are tried
// again for half of the job's life.
func rehearse(ctx context.Context, j Job, allows []allow) error {
	ctx, cancel := context.WithTimeout(ctx, j.Life/2)
	defer cancel()
	var (
		calls sync.WaitGroup
		once  sync.Once
		first error
	)
	for _, a := range allows {
		for range j.Callers {
			calls.Go(func() {
				if err := rehearsed(ctx, a); err != nil {
					once.Do(func() { first = err })
				}
			})
		}
	}
	calls.Wait()
	if first != nil {
		return fmt.Errorf("first calls: %w", first)
	}
	return nil
}

// rehearsed calls until a call is answered, or gives the error of the last that failed by itself.
func rehearsed(ctx context.Context, a allow) error {
	for {
		_, err := a(ctx)
		if err == nil || load.Sleep(ctx, rehearsalPause) != nil {
			return err
		}
	}
}
