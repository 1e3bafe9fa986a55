package scenario

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/load"
	"github.com/shardlimit/shardlimit/bench/internal/report"
	"github.com/shardlimit/shardlimit/bench/internal/rival"
)

const (
	keysFillers = 64 // callers that call every key once
	keysFamily  = "users"
	keysSettle  = time.Second // see Server.Memory
	keysTimed   = 8           // of so many calls one is timed, so that a decision without I/O is not all timing
)

// keysTurn is one rival in one round of a case.
type keysTurn struct {
	*keysRun
	rival rival.Rival
	kind  keysCase
	draws draws
}

// play has the server and a client to itself, and leaves the server empty. It notes what it finds
// under the columns from first on.
func (t keysTurn) play(ctx context.Context, first int, rates []map[string]float64) error {
	h, err := t.rival.Open(ctx, t.server.Addr(), t.kind.limit())
	if err != nil {
		return err
	}
	allow, err := rival.Keys(ctx, h, keysFamily)
	if err == nil {
		err = t.loads(ctx, allow, first, rates)
	}
	h.Close()
	return errors.Join(err, t.server.Flush(ctx))
}

func (t keysTurn) loads(ctx context.Context, allow rival.AllowKey, first int, rates []map[string]float64) error {
	// the server shall know the script, and every connection be open; see warmUp
	for i, callers := range []int{1, keysFillers} {
		var names []string
		for n := range callers {
			names = append(names, "warm-up-"+strconv.Itoa(i)+"-"+strconv.Itoa(n))
		}
		if err := callOnce(ctx, allow, names, true); err != nil {
			return fmt.Errorf("warm up: %w", err)
		}
	}
	if t.kind.keys <= keysFill {
		if err := t.fill(ctx, allow); err != nil {
			return err
		}
	}
	for i, callers := range t.kind.callers {
		if err := t.measure(ctx, allow, first+i, callers, rates[i]); err != nil {
			return fmt.Errorf("%d callers: %w", callers, err)
		}
	}
	return nil
}

// fill calls every key once, and once more if that is denied, and notes what memory the first calls
// took.
func (t keysTurn) fill(ctx context.Context, allow rival.AllowKey) error {
	names := t.names[:t.kind.keys]
	once := func() error { return callOnce(ctx, allow, names, true) }
	if t.kind.weigh {
		calls := once
		once = func() error { return t.weigh(ctx, len(names), calls) }
	}
	if err := once(); err != nil {
		return fmt.Errorf("call every key once: %w", err)
	}
	if t.kind.denied {
		if err := callOnce(ctx, allow, names, false); err != nil {
			return fmt.Errorf("call every key again: %w", err)
		}
	}
	return nil
}

// weigh notes what memory so many keys take after the calls.
func (t keysTurn) weigh(ctx context.Context, keys int, calls func() error) error {
	before, err := t.weight(ctx)
	if err != nil {
		return err
	}
	if err := calls(); err != nil {
		return err
	}
	after, err := t.weight(ctx)
	if err != nil {
		return err
	}
	n := float64(keys)
	t.found.add(t.rival.Name, n, "heap", (after.heap-before.heap)/n)
	t.found.add(t.rival.Name, n, "redis", (after.server-before.server)/n)
	return nil
}

// keysWeight is memory in use, in bytes.
type keysWeight struct {
	heap   float64 // of this process, without garbage
	server float64
}

func (t keysTurn) weight(ctx context.Context) (w keysWeight, err error) {
	if !t.env.Smoke {
		if err := load.Sleep(ctx, keysSettle); err != nil {
			return w, err
		}
	}
	for range 2 { // what a sync.Pool holds survives one collection
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	w.heap = float64(m.HeapAlloc)
	used, err := t.server.Memory(ctx)
	w.server = float64(used)
	return w, err
}

// callOnce calls every key once, by several callers, each of which calls every so-manieth. A key
// whose call fails, or does not have the wanted answer, is called again after a moment.
func callOnce(ctx context.Context, allow rival.AllowKey, names []string, want bool) error {
	callers := min(keysFillers, len(names))
	errs := make([]error, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for n := i; n < len(names) && errs[i] == nil; n += callers {
				errs[i] = callUntil(ctx, allow, names[n], want)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func callUntil(ctx context.Context, allow rival.AllowKey, name string, want bool) error {
	for try := 1; ; try++ {
		ok, err := allow(ctx, name)
		if err == nil && ok != want {
			err = fmt.Errorf("%q: allowed %v, want %v", name, ok, want)
		}
		if err == nil || try == warmTries || ctx.Err() != nil {
			return err
		}
		if err := load.Sleep(ctx, warmPause); err != nil {
			return err
		}
	}
}

// measure notes what so many callers get.
func (t keysTurn) measure(ctx context.Context, allow rival.AllowKey, column, callers int,
	rates map[string]float64) error {
	times := load.NewLatencies()
	var counts atomic.Bool
	plan := load.Plan{Goroutines: callers, Warm: t.span / 4, For: t.span,
		Before: func() error { counts.Store(true); return nil },
		After:  func() error { counts.Store(false); return nil }}
	runtime.GC() // the garbage of others is not to be collected in this turn
	r, err := observe(ctx, t.server, plan, func(caller int) func(context.Context) (bool, error) {
		next, calls := t.draws.of(caller, callers), caller // not all time their first call
		return func(ctx context.Context) (bool, error) {
			name := t.names[next()]
			if calls++; calls%keysTimed != 0 {
				return allow(ctx, name)
			}
			began := time.Now()
			ok, err := allow(ctx, name)
			if counts.Load() {
				times.Add(caller, time.Since(began))
			}
			return ok, err
		}
	})
	if errors.Is(err, errIdle) { // a rival that is so slow, or a machine that stands still, costs the others nothing
		t.result.Remark("%s with %d callers in case %q: %v.", t.rival.Name, callers, t.kind.name, err)
		return nil
	}
	if err != nil {
		return err
	}
	rates[t.rival.Name] = r.sample.PerSecond()
	t.note(float64(column), callers, r, times)
	return nil
}

func (t keysTurn) note(x float64, callers int, r exactRound, times *load.Latencies) {
	add := func(metric string, value float64) { t.found.add(t.rival.Name, x, metric, value) }
	n := float64(r.sample.Decisions())
	at := times.Percentiles(50, 99)
	add("rate", r.sample.PerSecond())
	add("cpu", r.sample.CPUMicros())
	add("server-cpu", r.server.CPU*1e6/n)
	add("calls", float64(r.server.Scripts)/n)
	add("script", float64(r.server.ScriptMicro)/n)
	add("p50", micros(at[0]))
	add("p99", micros(at[1]))
	if failed := float64(r.sample.Failed); failed > 0 {
		add("failed", 100*failed/(n+failed))
		t.result.Remark("%s failed %d calls with %d callers in case %q, for example: %v.", t.rival.Name,
			r.sample.Failed, callers, t.kind.name, r.sample.Err)
	}
	wrong, what := r.sample.Denied, "denied"
	if t.kind.denied {
		wrong, what = r.sample.Allowed, "allowed"
	}
	if wrong > 0 {
		t.result.Remark("%s %s %s of %s calls with %d callers in case %q.", t.rival.Name, what,
			report.Count(float64(wrong)), report.Count(n), callers, t.kind.name)
	}
}
