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
	For      time.Duration
	// Workers is how many calls can be under way at once. A call that finds none
	// free waits; whoever measures from Due counts that.
	Workers int
}

// Due is a call of an open loop.
type Due struct {
	Who    int           // the client that makes it
	Worker int           // which worker serves it, 0 to Workers-1
	At     time.Time     // when it should have been sent: latency counts from here
	Lag    time.Duration // how much later its turn came: the generator's own delay, or all workers were busy
}

// OpenSample is what became of the arrivals.
type OpenSample struct {
	Elapsed time.Duration
	Sent    int64
	Unsent  int64 // due, but no worker came free before the end
}

// Open serves every arrival that is due within plan.For. It returns when all of
// the calls under way have ended.
func Open(ctx context.Context, plan OpenPlan, serve func(context.Context, Due)) (OpenSample, error) {
	metronome, err := newMetronome()
	if err != nil {
		return OpenSample{}, err
	}
	defer metronome.close()
	var (
		wg   sync.WaitGroup
		sent atomic.Int64
		due  = make(chan Due)
		s    OpenSample
	)
	began := time.Now()
	for worker := range plan.Workers {
		wg.Go(func() {
			n := int64(0)
			for d := range due {
				d.Worker = worker
				serve(ctx, d)
				n++
			}
			sent.Add(n)
		})
	}
	s.Unsent, err = dispatch(ctx, plan, began, metronome, due)
	s.Elapsed = time.Since(began)
	close(due)
	wg.Wait()
	s.Sent = sent.Load()
	return s, err
}

// dispatch hands every arrival over when it is due. It returns how many were
// due but not handed over: the calls of a backlog at the end.
func dispatch(ctx context.Context, plan OpenPlan, began time.Time, m *metronome,
	due chan<- Due) (unsent int64, err error) {
	over := time.NewTimer(time.Until(began.Add(plan.For)))
	defer over.Stop()
	for {
		a := plan.Arrivals()
		if a.At >= plan.For {
			return 0, nil
		}
		at := began.Add(a.At)
		now := time.Now()
		for ; now.Before(at); now = time.Now() {
			if err := ctx.Err(); err != nil {
				return 0, err
			}
			if err := m.sleep(min(max(at.Sub(now), shortestSleep), longestSleep)); err != nil {
				return 0, err
			}
		}
		select {
		case due <- Due{Who: a.Who, At: at, Lag: now.Sub(at)}:
		default:
			select {
			case due <- Due{Who: a.Who, At: at, Lag: now.Sub(at)}:
			case <-ctx.Done():
				return 0, ctx.Err()
			case <-over.C:
				return backlog(plan), nil
			}
		}
	}
}

// backlog counts the arrivals that would still have been due, with the one in hand.
func backlog(plan OpenPlan) int64 {
	for n := int64(1); ; n++ {
		if plan.Arrivals().At >= plan.For {
			return n
		}
	}
}
