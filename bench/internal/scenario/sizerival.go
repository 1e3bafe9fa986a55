package scenario

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/bench/internal/rival"
	"github.com/shardlimit/shardlimit/bench/internal/yardstick"
)

const (
	sizeKeep     = time.Hour        // window of a rival's limit, until it has been filled
	sizeShort    = time.Millisecond // and after that
	sizeTogether = 64               // takes of a rival in a pipeline
	sizeFillRate = 10_000           // calls a second by which Redisson's limit is filled
	sizeDenials  = 100 * time.Millisecond
)

// sizeRival is a limiter whose cost is compared with ours.
type sizeRival struct {
	name string
	most int64 // permits: to fill a larger limit takes too long
	open func(name string, permits int64) ledger

	last int64  // permits of the largest limit that it is measured with; 0: not known yet
	why  string // no larger one
}

// ledger is a limit of a rival.
type ledger struct {
	fill   func(ctx context.Context, n int64) error // takes about n permits, one by one
	deny   func(ctx context.Context) error          // takes until nothing is left, and goes on for a while
	expire func(ctx context.Context) error          // takes a permit after everything has left the window
	keys   []string
}

// bounded reports whether the rival is not to be measured with so many permits.
func (r *sizeRival) bounded(permits int64) bool {
	if r.last == 0 && permits > r.most {
		r.last, r.why = r.most, "to fill a larger limit one by one takes too long"
	}
	return r.last > 0 && permits > r.last
}

// took notes how long the call after a whole window was.
func (r *sizeRival) took(permits int64, call time.Duration) {
	if call > sizeBound && r.last == 0 {
		r.last, r.why = permits, fmt.Sprintf("the first call after a whole window took %s there",
			call.Round(time.Millisecond))
	}
}

// theirs appends one round of every quantity of a rival.
func (run *sizeRun) theirs(ctx context.Context, round int, r *sizeRival, permits int64) error {
	name := strings.ReplaceAll(fmt.Sprintf("size-%s-%d-%d", r.name, permits, round), " ", "-")
	l, x := r.open(name, permits), float64(permits)
	var micros float64
	timed := func(what string, do func() error) (err error) {
		micros, err = scriptMicros(ctx, run.server, do)
		run.found.add(r.name+", "+what, x, "script", micros)
		return err
	}
	longest, err := run.server.Longest(ctx, func() error {
		if err := timed("granted", func() error { return l.fill(ctx, int64(sizeLoad*x)) }); err != nil {
			return err
		}
		if err := run.weighAll(ctx, r.name, x, "memory", l.keys...); err != nil {
			return err
		}
		if err := l.deny(ctx); err != nil { // until it is full
			return err
		}
		if err := timed("denied", func() error { return l.deny(ctx) }); err != nil {
			return err
		}
		return timed("after a whole window", func() error { return l.expire(ctx) })
	})
	if err != nil {
		return err
	}
	run.found.add(r.name, x, "longest", longest.Seconds()*1e3)
	r.took(permits, time.Duration(micros*float64(time.Microsecond)))
	return run.client.Do(ctx, run.client.B().Del().Key(l.keys...).Build()).Error()
}

// plain is the script that is usually written.
func (run *sizeRun) plain() *sizeRival {
	return &sizeRival{name: sizePlain, most: 1_000_000, open: func(name string, permits int64) ledger {
		limit := yardstick.NewPlain(name, permits)
		take := func(ctx context.Context, n int64, window time.Duration) (granted int64, err error) {
			commands := make([]rueidis.Completed, n)
			for i := range commands {
				commands[i] = limit.Take(run.client, window)
			}
			for _, reply := range run.client.DoMulti(ctx, commands...) {
				ints, err := reply.AsIntSlice()
				if err != nil {
					return granted, err
				}
				granted += ints[0]
			}
			return granted, nil
		}
		return ledger{
			fill: func(ctx context.Context, n int64) error {
				for ; n > 0; n -= sizeTogether {
					if _, err := take(ctx, min(n, sizeTogether), sizeKeep); err != nil {
						return err
					}
				}
				return nil
			},
			deny: func(ctx context.Context) error {
				for granted := int64(1); granted > 0; {
					var err error
					if granted, err = take(ctx, sizeTogether, sizeKeep); err != nil {
						return err
					}
				}
				return nil
			},
			expire: func(ctx context.Context) error {
				granted, err := take(ctx, 1, sizeShort)
				return expired(granted == 1, err)
			},
			keys: []string{limit.Key()},
		}
	}}
}

// redisson is RRateLimiter.
func (run *sizeRun) redisson(jvm *rival.Redisson) *sizeRival {
	return &sizeRival{name: rival.RedissonName, most: 100_000, open: func(name string, permits int64) ledger {
		limit := jvm.Sized(rival.Limit{Permits: permits, Per: sizeKeep})
		return ledger{
			fill: func(ctx context.Context, n int64) error {
				span := time.Duration(float64(n) / sizeFillRate * float64(time.Second))
				o, err := limit.Offer(ctx, name, 0, span, []float64{sizeFillRate})
				if err == nil && o.Failed > 0 {
					err = fmt.Errorf("%d of %d calls failed", o.Failed, o.Calls)
				}
				return err
			},
			deny: func(ctx context.Context) error {
				for denied := int64(0); denied == 0; {
					l, err := limit.Load(ctx, name, 1, 0, sizeDenials)
					if err != nil {
						return err
					}
					denied = l.Denied
				}
				return nil
			},
			expire: func(ctx context.Context) error {
				if err := jvm.Shorten(ctx, run.client, name, sizeShort); err != nil {
					return err
				}
				allow, err := limit.Limiter(ctx, name)
				if err != nil {
					return err
				}
				ok, err := allow(ctx)
				return expired(ok, err)
			},
			keys: rival.RedissonKeys(name),
		}
	}}
}

// expired is the error if a call was refused although nothing is in the window any more.
func expired(allowed bool, err error) error {
	if err == nil && !allowed {
		err = fmt.Errorf("denied, although everything has left the window")
	}
	return err
}
