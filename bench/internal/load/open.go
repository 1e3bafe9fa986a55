package load

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// longestSleep is how soon the generator sees that it has been cancelled.
	longestSleep = 50 * time.Millisecond
	// shortestSleep keeps the generator from spending more on sleeping than on
	// calls: what becomes due in such a time goes out together, and that much late.
	shortestSleep = 40 * time.Microsecond
)

// OpenPlan says how to load with calls that come when they come, whether or not
// earlier ones have been answered.
type OpenPlan struct {
	Arrivals Arrivals
	Warm     time.Duration // calls that are due in it are not timed
	For      time.Duration // after that
	// Workers is how many calls can be under way at once. A call that finds none
	// free waits; its time counts from when it was due.
	Workers int
	// Drop means that such a call is not made. Times count from when calls were made then, and only
	// calls that end in time count at all.
	Drop bool
}

// Due is a call of an open loop.
type Due struct {
	Who    int       // the client that makes it
	Worker int       // which worker serves it, 0 to Workers-1
	At     time.Time // when it should have been sent: latency counts from here
}

// OpenSample is what became of the arrivals. Times count from when calls were due.
type OpenSample struct {
	Sample
	Unsent int64 // due, but not made
}

// Open serves every arrival that is due within the plan. It returns when all of
// the calls under way have ended.
func Open(ctx context.Context, plan OpenPlan, serve func(context.Context, Due) (bool, error)) (OpenSample, error) {
	metronome, err := newMetronome()
	if err != nil {
		return OpenSample{}, err
	}
	defer metronome.close()
	var (
		wg      sync.WaitGroup
		free    = make(chan int, plan.Workers)
		tallies [histograms]tally
		lastErr atomic.Pointer[error]
		times   = NewLatencies()
		began   = time.Now()
		over    = began.Add(plan.Warm + plan.For)
	)
	for worker := range plan.Workers {
		free <- worker
	}
	unsent, err := dispatch(ctx, plan, began, metronome, free, func(d Due) {
		wg.Go(func() {
			if plan.Drop {
				d.At = time.Now()
			}
			ok, err := serve(ctx, d)
			switch now, t := time.Now(), &tallies[d.Worker%histograms]; {
			case plan.Drop && now.After(over):
			case err != nil:
				t.failed.Add(1)
				lastErr.Store(&err)
			default:
				count := &t.denied
				if ok {
					count = &t.allowed
				}
				count.Add(1)
				if d.At.Sub(began) >= plan.Warm {
					times.Add(d.Worker, now.Sub(d.At))
				}
			}
			free <- d.Worker
		})
	})
	elapsed := time.Since(began)
	if plan.Drop {
		elapsed = plan.Warm + plan.For
	}
	wg.Wait()
	s := OpenSample{Sample: sum(tallies[:]), Unsent: unsent}
	s.Elapsed, s.Times = elapsed, times
	if e := lastErr.Load(); e != nil {
		s.Err = *e
	}
	return s, err
}

// dispatch starts every call when it is due, by a worker that is free. It returns how many were
// due but not started: the calls of a backlog at the end, or those that were dropped.
func dispatch(ctx context.Context, plan OpenPlan, began time.Time, m *metronome, free <-chan int,
	start func(Due)) (unsent int64, err error) {
	span := plan.Warm + plan.For
	over := time.NewTimer(time.Until(began.Add(span)))
	defer over.Stop()
	rest := func() (n int64) { // that in hand, and those after it
		for n = 1; plan.Arrivals().At < span; n++ {
		}
		return n
	}
	for {
		a := plan.Arrivals()
		if a.At >= span {
			return unsent, nil
		}
		at, now := began.Add(a.At), time.Now()
		for ; now.Before(at); now = time.Now() {
			if err := ctx.Err(); err != nil {
				return 0, err
			}
			if err := m.sleep(min(max(at.Sub(now), shortestSleep), longestSleep)); err != nil {
				return 0, err
			}
		}
		if plan.Drop && now.Sub(began) >= span {
			return unsent + rest(), ctx.Err()
		}
		select {
		case worker := <-free:
			start(Due{a.Who, worker, at})
			continue
		default:
		}
		if plan.Drop {
			unsent++
			continue
		}
		select {
		case worker := <-free:
			start(Due{a.Who, worker, at})
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-over.C:
			return rest(), nil
		}
	}
}
