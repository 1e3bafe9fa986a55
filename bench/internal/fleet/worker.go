package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/hist"
	"github.com/shardlimit/shardlimit/bench/internal/load"
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

// serve does jobs until in ends.
func serve(in io.Reader, out io.Writer) error {
	orders, replies := json.NewDecoder(in), json.NewEncoder(out)
	for {
		o, err := next(orders)
		if errors.Is(err, io.EOF) {
			return nil
		}
		switch {
		case err != nil:
		case o.Job != nil:
			err = do(*o.Job, orders, replies)
		case o.Crowd != nil:
			err = attend(*o.Crowd, orders, replies)
		default:
			err = fmt.Errorf("ordered to %q without a job", o.Word)
		}
		if err != nil {
			_ = replies.Encode(reply{Err: err.Error()})
			return err
		}
	}
}

func next(orders *json.Decoder) (order, error) {
	var o order
	return o, orders.Decode(&o)
}

// do does one job, step by step as its parent says.
func do(j Job, orders *json.Decoder, replies *json.Encoder) error {
	watchdog := time.AfterFunc(j.Life, func() {
		fmt.Fprintln(os.Stderr, "bench worker: its time is over")
		os.Exit(1)
	})
	defer watchdog.Stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	all, end, err := connect(ctx, j)
	if err != nil {
		return err
	}
	defer end()
	if err := replies.Encode(reply{Ready: true}); err != nil {
		return err
	}
	if _, err := expect(orders, wordRun); err != nil {
		return err
	}
	t := &tally{}
	stopped := t.load(ctx, j, all)
	if _, err := expect(orders, wordCount); err != nil {
		return err
	}
	t.begin()
	if _, err := expect(orders, wordEnd); err != nil {
		return err
	}
	report := t.end()
	cancel()
	stopped()
	return replies.Encode(reply{Report: &report})
}

// expect waits for a word and returns the time that comes with it.
func expect(orders *json.Decoder, word string) (int64, error) {
	o, err := next(orders)
	if err != nil {
		return 0, err
	}
	if o.Word != word {
		return 0, fmt.Errorf("ordered to %q, not to %q", o.Word, word)
	}
	return o.At, nil
}

// allow makes one decision.
type allow func(ctx context.Context) (bool, error)

// tally counts what the callers of one process were answered.
type tally struct {
	counting                atomic.Bool
	allowed, denied, failed atomic.Int64
	latency                 hist.Hist
	err                     atomic.Pointer[error]

	mu    sync.Mutex
	large []time.Duration

	began time.Time
	cpu   time.Duration
}

// load starts the callers, which go on until ctx ends; the returned function
// waits for the last of them.
func (t *tally) load(ctx context.Context, j Job, all callers) (stopped func()) {
	var running sync.WaitGroup
	for _, a := range all.allows {
		for range j.Callers {
			running.Go(func() {
				for pause(ctx, j.Think) {
					t.call(ctx, a)
				}
			})
		}
	}
	if all.large != nil {
		running.Go(func() {
			for ctx.Err() == nil {
				t.callLarge(ctx, all.large)
				_ = load.Sleep(ctx, 2*j.Per) // the loop looks at ctx
			}
		})
	}
	return running.Wait
}

// callLarge notes how long a large call took, if it ended while it was counted.
func (t *tally) callLarge(ctx context.Context, a allow) {
	asked := time.Now()
	ok, err := a(ctx)
	if !t.counting.Load() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.failed.Add(1)
		keep := err // on the heap only if there is one
		t.err.Store(&keep)
	} else if ok {
		t.large = append(t.large, time.Since(asked))
	}
}

// pause waits a random time and reports whether the load goes on.
func pause(ctx context.Context, mean time.Duration) bool {
	if mean <= 0 {
		return ctx.Err() == nil
	}
	return load.Sleep(ctx, time.Duration(rand.ExpFloat64()*float64(mean))) == nil
}

func (t *tally) call(ctx context.Context, a allow) {
	asked := time.Now()
	ok, err := a(ctx)
	switch {
	case !t.counting.Load():
		return
	case err != nil:
		t.failed.Add(1)
		keep := err // on the heap only if there is one
		t.err.Store(&keep)
		return
	case ok:
		t.allowed.Add(1)
	default:
		t.denied.Add(1)
	}
	t.latency.Add(time.Since(asked), 1)
}

func (t *tally) begin() {
	t.began, t.cpu = time.Now(), load.CPU()
	t.counting.Store(true)
}

func (t *tally) end() Report {
	t.counting.Store(false)
	r := Report{
		Elapsed: time.Since(t.began),
		CPU:     load.CPU() - t.cpu,
		Allowed: t.allowed.Load(),
		Denied:  t.denied.Load(),
		Failed:  t.failed.Load(),
		Latency: t.latency.Snapshot(),
	}
	t.mu.Lock()
	r.Large = t.large
	t.mu.Unlock()
	if err := t.err.Load(); err != nil {
		r.Err = (*err).Error()
	}
	return r
}
