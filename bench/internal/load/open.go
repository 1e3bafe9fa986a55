package load

import (
	"context"
	"sync"
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
	Unsent int64 // due, but no worker came free before the end
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
		wg    sync.WaitGroup
		mu    sync.Mutex
		due   = make(chan Due)
		s     = OpenSample{Sample: Sample{Times: NewLatencies()}}
		began = time.Now()
		timed = began.Add(plan.Warm)
	)
	for worker := range plan.Workers {
		wg.Go(func() {
			var own Sample
			for d := range due {
				d.Worker = worker
				ok, err := serve(ctx, d)
				switch {
				case err != nil:
					own.Failed, own.Err = own.Failed+1, err
					continue
				case ok:
					own.Allowed++
				default:
					own.Denied++
				}
				if !d.At.Before(timed) {
					s.Times.Add(worker, time.Since(d.At))
				}
			}
			mu.Lock()
			defer mu.Unlock()
			s.Allowed, s.Denied, s.Failed = s.Allowed+own.Allowed, s.Denied+own.Denied, s.Failed+own.Failed
			if own.Err != nil {
				s.Err = own.Err
			}
		})
	}
	unsent, err := dispatch(ctx, plan, began, metronome, due)
	elapsed := time.Since(began)
	close(due)
	wg.Wait()
	s.Unsent, s.Elapsed = unsent, elapsed
	return s, err
}

// dispatch hands every arrival over when it is due. It returns how many were
// due but not handed over: the calls of a backlog at the end.
func dispatch(ctx context.Context, plan OpenPlan, began time.Time, m *metronome,
	due chan<- Due) (unsent int64, err error) {
	span := plan.Warm + plan.For
	over := time.NewTimer(time.Until(began.Add(span)))
	defer over.Stop()
	for {
		a := plan.Arrivals()
		if a.At >= span {
			return 0, nil
		}
		at := began.Add(a.At)
		for now := time.Now(); now.Before(at); now = time.Now() {
			if err := ctx.Err(); err != nil {
				return 0, err
			}
			if err := m.sleep(min(max(at.Sub(now), shortestSleep), longestSleep)); err != nil {
				return 0, err
			}
		}
		d := Due{Who: a.Who, At: at}
		select {
		case due <- d:
			continue
		default:
		}
		select {
		case due <- d:
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-over.C:
			for unsent = 1; plan.Arrivals().At < span; { // that in hand, and those after it
				unsent++
			}
			return unsent, nil
		}
	}
}
