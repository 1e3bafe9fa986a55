package fairness

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/limittest/redissim"
	"github.com/shardlimit/shardlimit/internal/maxmin"
	"github.com/shardlimit/shardlimit/internal/race"
)

// population is a way for participants to want different things of one limit.
type population struct {
	name      string
	permits   int64 // a second; 0: 800
	algorithm shardlimit.Algorithm
	gateway   bool // all call through one process
	members   []role
	// What counts: from, windows long, and of these members only, if not of all.
	from    int64
	windows int64
	judged  func(i int) bool
}

// role is what a participant does. Its callers either come by themselves, at a rate, or are so
// many, wait for their permits and work before they want the next.
type role struct {
	weight   int64
	rate     float64 // permits a second
	even     bool    // at equal distances, else at random
	callers  int
	size     int64         // permits of a call that waits; 0: one
	work     time.Duration // on average; 0: none
	from, to time.Duration // while it is there; to 0: to the end
}

// played is what came of a population.
type played struct {
	Jain, Least, Most, Use, Calls float64
}

const measuredWindow = time.Second

// populace is a population in a bubble.
type populace struct {
	t       *testing.T
	p       *population
	begun   time.Time
	calls   atomic.Int64
	clients []*shardlimit.Limiter
	wanted  []atomic.Int64
	got     []atomic.Int64
	wg      sync.WaitGroup
}

// play plays a population in simulated time with the real client.
func (p *population) play(t *testing.T, shards int, seed uint64) (r played) {
	synctest.Test(t, func(t *testing.T) {
		race.OneProcessor(t)
		w := &populace{t: t, p: p, begun: time.Now(), wanted: make([]atomic.Int64, len(p.members)),
			got: make([]atomic.Int64, len(p.members))}
		server := redissim.NewServer(time.Now)
		go server.Serve()
		defer server.Close()
		defer time.Sleep(time.Second) // calls under way end
		var mu sync.Mutex
		chance := rand.New(rand.NewPCG(seed, 1))
		way := func([]string) redissim.Fate { // to the node and back: a quarter of a millisecond or little more
			w.calls.Add(1)
			mu.Lock()
			defer mu.Unlock()
			return redissim.Fate{There: time.Duration(200_000 + chance.Int64N(100_000)),
				Back: time.Duration(200_000 + chance.Int64N(100_000))}
		}
		limit := shardlimit.Limit{Permits: p.limit(), Per: measuredWindow, Shards: shards, Algorithm: p.algorithm}
		name := fmt.Sprint(p.name, " ", shards, " ", seed)
		for i := range p.members {
			if p.gateway && i > 0 {
				w.clients = append(w.clients, w.clients[0].As(fmt.Sprint("tenant-", i), p.members[i].share()))
				continue
			}
			client, err := shardlimit.New(shardlimit.Config{
				Nodes:       []shardlimit.Node{{Name: "n", Client: redissim.NewLink(server, way, func() {})}},
				Participant: fmt.Sprint("p", i, " ", seed), Weight: p.members[i].share(), KeyPrefix: "a:",
				MeterProvider: metricnoop.NewMeterProvider(), TracerProvider: tracenoop.NewTracerProvider(),
			})
			limittest.Must(t, err)
			defer client.Close()
			w.clients = append(w.clients, limittest.Limiter(t, client, name, limit))
		}
		w.begun = time.Now()
		ctx, stop := context.WithTimeout(t.Context(), w.end())
		defer stop()
		for i := range p.members {
			w.wg.Go(func() { w.live(ctx, i, rand.New(rand.NewPCG(seed, uint64(i)+7))) })
		}
		time.Sleep(time.Duration(p.from) * measuredWindow)
		before := w.calls.Load()
		time.Sleep(time.Duration(p.windows) * measuredWindow)
		calls := w.calls.Load() - before
		stop()
		w.wg.Wait()
		r = w.result(calls)
	})
	return r
}

func (p *population) limit() int64 {
	if p.permits == 0 {
		return 800
	}
	return p.permits
}

func (m *role) share() float64 { return float64(max(m.weight, 1)) }

func (w *populace) end() time.Duration { return time.Duration(w.p.from+w.p.windows) * measuredWindow }

// counts reports whether what happens now counts.
func (w *populace) counts() bool {
	since := time.Since(w.begun)
	return since >= time.Duration(w.p.from)*measuredWindow && since < w.end()
}

// live is what a participant does.
func (w *populace) live(ctx context.Context, i int, rng *rand.Rand) {
	m := w.p.members[i]
	time.Sleep(m.from)
	if m.to > 0 {
		var stop func()
		ctx, stop = context.WithTimeout(ctx, m.to-m.from)
		defer stop()
	}
	switch {
	case m.callers > 0:
		for k := range m.callers {
			own := rand.New(rand.NewPCG(rng.Uint64(), uint64(k)))
			w.wg.Go(func() { w.wait(ctx, i, own) })
		}
	default:
		w.come(ctx, i, rng)
	}
}

// wait is a caller that waits, works and waits again.
func (w *populace) wait(ctx context.Context, i int, rng *rand.Rand) {
	m := &w.p.members[i]
	time.Sleep(time.Duration(rng.Float64() * float64(m.work)))
	for w.clients[i].WaitN(ctx, max(m.size, 1)) == nil {
		if w.counts() {
			w.got[i].Add(max(m.size, 1))
		}
		time.Sleep(time.Duration(float64(m.work) * (0.5 + rng.Float64())))
	}
}

// come has callers come one after the other.
func (w *populace) come(ctx context.Context, i int, rng *rand.Rand) {
	m := &w.p.members[i]
	if m.even {
		time.Sleep(time.Duration(rng.Float64() / m.rate * float64(time.Second)))
	}
	next := time.Now()
	for ctx.Err() == nil {
		pause := 1 / m.rate
		if !m.even {
			pause *= rng.ExpFloat64()
		}
		next = next.Add(time.Duration(pause * float64(time.Second)))
		time.Sleep(time.Until(next))
		if ctx.Err() != nil {
			return
		}
		if w.counts() {
			w.wanted[i].Add(1)
		}
		w.wg.Go(func() {
			if d, err := w.clients[i].Allow(ctx); err == nil && d.Allowed && w.counts() {
				w.got[i].Add(1)
			}
		})
	}
}

// result compares what members had with what they were entitled to.
func (w *populace) result(calls int64) played {
	all := w.p.limit() * w.p.windows
	var claims []maxmin.Claim
	wanted, got := int64(0), int64(0)
	for i := range w.p.members {
		m := &w.p.members[i]
		want := w.wanted[i].Load()
		if m.callers > 0 {
			want = all
			if m.work > 0 {
				want = min(all, int64(float64(int64(m.callers)*max(m.size, 1))*
					float64(time.Duration(w.p.windows)*measuredWindow)/float64(m.work+500*time.Microsecond)))
			}
		}
		if m.to > 0 && m.to <= time.Duration(w.p.from)*measuredWindow {
			want = 0
		}
		claims = append(claims, maxmin.Claim{Demand: want, Weight: max(m.weight, 1) * 1000})
		wanted, got = wanted+want, got+w.got[i].Load()
	}
	var parts []float64
	for i, share := range maxmin.Shares(nil, all, claims) {
		if share > 0 && (w.p.judged == nil || w.p.judged(i)) {
			parts = append(parts, float64(w.got[i].Load())/float64(share))
		}
	}
	return played{Jain: maxmin.Jain(parts), Least: slices.Min(parts), Most: slices.Max(parts),
		Use: float64(got) / float64(min(wanted, all)), Calls: float64(calls) / math.Max(float64(got), 1)}
}

// alike are n members of this kind.
func alike(n int, m role) (all []role) {
	for range n {
		all = append(all, m)
	}
	return all
}

func first(n int) func(int) bool { return func(i int) bool { return i < n } }
func last(n int) func(int) bool  { return func(i int) bool { return i == n-1 } }
