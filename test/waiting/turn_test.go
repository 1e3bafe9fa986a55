package waiting

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/history"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/race"
	"github.com/shardlimit/shardlimit/ratelike"
)

// act is a caller whose turn has come, or who has failed.
type act struct {
	place int // in the line
	at    time.Time
	err   error
}

// lineUp has so many callers wait for a turn of a bucket that has none left, one after the other.
// What it returns waits for the end of all and tells who had a turn, and why the others had none,
// by their places.
func lineUp(t *testing.T, l *shardlimit.Limiter, callers int,
	ctx func(place int) context.Context) (turns func() (served []act, failed map[int]error)) {
	t.Helper()
	acts := make(chan act, callers)
	for place := range callers {
		go func() {
			err := l.Wait(ctx(place))
			acts <- act{place, time.Now(), err}
		}()
		synctest.Wait() // it stands in the line
	}
	if n := limittest.Waiting(l); n != callers {
		t.Fatalf("%d stand in the line, want %d", n, callers)
	}
	return func() (served []act, failed map[int]error) {
		failed = make(map[int]error)
		for range callers {
			if a := <-acts; a.err != nil {
				failed[a.place] = a.err
			} else {
				served = append(served, a)
			}
		}
		return served, failed
	}
}

// farInterval is the distance of the turns of farAway.
const farInterval = 10 * time.Millisecond

// farAway is a leaky bucket of which a call takes as long as five turns, which is half of the
// default call timeout, and when the last of its turns comes, all of which are taken.
func farAway(t *testing.T, turns int64) (l *shardlimit.Limiter, last time.Time) {
	t.Helper()
	f := limittest.Bubbled(t, 1).Far(0, 5*farInterval)
	l = f.Limiter(t, shardlimit.Limit{Permits: 100, Per: 100 * farInterval, Algorithm: shardlimit.LeakyBucket,
		Burst: turns, Shards: 1}, limittest.PatientFor(limittest.Patience))
	d := limittest.MustGet(t, l, turns)
	return l, time.Now().Add(d.Delay)
}

// followOn checks that the callers act in the order of their places, the first an interval after
// last and each an interval after the one before.
func followOn(t *testing.T, last time.Time, served []act) {
	t.Helper()
	place := -1
	for i, s := range served {
		if s.place < place {
			t.Errorf("number %d to act is the one at place %d, after that at %d", i, s.place, place)
		}
		if apart := s.at.Sub(last); apart != farInterval {
			t.Errorf("number %d acts %s after the one before, want %s", i, apart, farInterval)
		}
		place, last = s.place, s.at
	}
}

// Those who wait have their turns one after the other, however long a call takes. Who cannot wait
// until its turn leaves it to those behind, and who leaves the line takes nobody's.
func TestNoTurnIsLostToThoseWhoDoNotWaitForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, last := farAway(t, 60)
		// It ends before the first turn of the line, and long after all have been told of their
		// turns: how many calls of five intervals that takes depends on which asks happen to share
		// one.
		hasty := limittest.Shortly(t, 50*farInterval)
		leaver, leave := context.WithCancel(t.Context())
		turns := lineUp(t, l, 80, func(place int) context.Context {
			switch place {
			case 1, 2, 3: // with nobody before it, it would not stand in the line
				return hasty
			case 40, 79:
				return leaver
			}
			return t.Context()
		})
		leave()
		served, failed := turns()
		if len(served) != 75 {
			t.Errorf("%d were served, want 75", len(served))
		}
		followOn(t, last, served)
		for _, place := range []int{1, 2, 3} {
			limittest.ErrorIs(t, failed[place], shardlimit.ErrWaitTooLong, "too little time at place", place)
		}
		for _, place := range []int{40, 79} {
			limittest.ErrorIs(t, failed[place], context.Canceled, "who left at place", place)
		}
	})
}

// The whole line leaves while the pump asks for several turns, and then the last who has got one:
// the turns are given back, and whoever comes next has the first of them.
func TestTurnsThatNobodyWantsAnyMoreAreGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, last := farAway(t, 300)
		ctxs, leave := make([]context.Context, 80), make([]func(), 80)
		for i := range ctxs {
			ctxs[i], leave[i] = context.WithCancel(t.Context())
		}
		turns := lineUp(t, l, len(ctxs), func(place int) context.Context { return ctxs[place] })
		for limittest.Waiting(l) > 50 {
			time.Sleep(farInterval)
		}
		time.Sleep(farInterval) // now the next call is under way, of those who stay none is in the line
		staying := len(ctxs) - limittest.Waiting(l)
		for _, f := range leave[staying:] {
			f()
		}
		time.Sleep(100 * farInterval) // the time of twenty calls
		staying--
		leave[staying]() // who sleeps until its turn, the last that is given
		time.Sleep(10 * farInterval)
		d, err := l.Allow(t.Context())
		next := time.Now().Add(d.Delay)
		served, failed := turns()
		if len(served) != staying || len(failed) != len(ctxs)-staying {
			t.Errorf("%d were served and %d have left, want %d served", len(served), len(failed), staying)
		}
		followOn(t, last, append(served, act{len(ctxs), next, err}))
	})
}

// One of two nodes answers late. Nobody whom the other one serves is kept from its turn meanwhile:
// of each shard one acts at a time.
func TestALateNodeHoldsNobodysTurnUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const callers = 200
		f := limittest.Bubbled(t, 2).Far(0, 10*farInterval)
		l := f.Limiter(t, shardlimit.Limit{Permits: 100, Per: 100 * farInterval, Algorithm: shardlimit.LeakyBucket,
			Burst: 10, Shards: 2}, limittest.PatientFor(limittest.Patience))
		if d, err := l.AllowUpTo(t.Context(), 10); err != nil || !d.Allowed {
			t.Fatalf("%+v, %v", d, err)
		}
		acts := make(chan time.Time, callers)
		for range callers {
			go func() {
				limittest.ErrorIs(t, l.Wait(t.Context()), nil)
				acts <- time.Now()
			}()
		}
		first, second := <-acts, <-acts
		for range callers - 2 {
			third := <-acts
			if apart := third.Sub(first); apart < 2*farInterval-time.Microsecond {
				t.Errorf("three act within %s", apart)
			}
			first, second = second, third
		}
	})
}

// Whatever was refused has left no hole: whoever polls a leaky bucket for turns that come soon gets
// all of them, however many poll.
func TestPollersOfALeakyBucketGetEveryTurn(t *testing.T) {
	wait := func(ctx context.Context, l *shardlimit.Limiter) bool { return l.Wait(ctx) == nil }
	for name, c := range map[string]struct {
		patience time.Duration
		poll     func(context.Context, *shardlimit.Limiter) bool
	}{
		"Wait":            {5 * time.Millisecond, wait},
		"Wait for longer": {300 * time.Millisecond, wait},
		"Reserve": {5 * time.Millisecond, func(ctx context.Context, l *shardlimit.Limiter) bool {
			return limittest.Err(l.Reserve(ctx, 1)) == nil
		}},
		"ratelike.Allow": {time.Hour, func(_ context.Context, l *shardlimit.Limiter) bool {
			return ratelike.New(l).Allow()
		}},
	} {
		for _, shards := range []int{1, 3} {
			if race.Enabled && shards > 1 {
				continue // the detector finds the same
			}
			limittest.RunInBubble(t, fmt.Sprint(name, " on ", shards), 1, func(t *testing.T, f limittest.Fleet) {
				limit := shardlimit.Limit{
					Permits: 12, Per: time.Second, Algorithm: shardlimit.LeakyBucket, Shards: shards,
				}
				const long = 5 * time.Second
				most := limit.Permits*int64(long/limit.Per) + int64(shards)
				got := polled(t, f, limit, long, c.patience, c.poll)
				late := limit.Permits / 2 // the last wait on for a while
				if t.Logf("%d turns of %d", got, most); got > most+late || got < most*9/10 {
					t.Error("too many or too few")
				}
			})
		}
	}
}

// polled is how many turns two processes with eight pollers each get.
func polled(t *testing.T, f limittest.Fleet, limit shardlimit.Limit, long, patience time.Duration,
	poll func(context.Context, *shardlimit.Limiter) bool) int64 {
	var got atomic.Int64
	var wg sync.WaitGroup
	end := time.Now().Add(long)
	for p := range 2 {
		l := f.Limiter(t, limit)
		limittest.Settled(t, l)
		for k := range 8 {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(p), uint64(k)))
				for time.Sleep(time.Duration(rng.IntN(40)) * time.Millisecond); time.Now().Before(end); {
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					if poll(ctx, l) {
						got.Add(1)
					}
					cancel()
					time.Sleep(time.Duration(1+rng.IntN(40)) * time.Millisecond)
				}
			})
		}
	}
	wg.Wait()
	return got.Load()
}

// A process that rested while the queue of a bucket was made shorter takes no turn farther ahead
// than the new one has: a takeover does not wait for more.
func TestWhoRestedTakesTurnsByTheLimitInForce(t *testing.T) {
	limittest.InBubble(t, 3, func(t *testing.T, fl limittest.Fleet) {
		before := shardlimit.Limit{Permits: 10, Per: time.Minute, Burst: 25, Shards: 1,
			Algorithm: shardlimit.LeakyBucket}
		rests, other := fl.Limiter(t, before, limittest.TakesOver), fl.Limiter(t, before, limittest.TakesOver)
		limittest.Settled(t, other)
		limittest.MustGet(t, rests, 1)
		after := before
		after.Burst = 2
		limittest.Must(t, other.SetLimit(t.Context(), after))
		limittest.Settled(t, other)
		time.Sleep(31 * time.Minute) // no shard has state that would tell of the change
		begun := time.Now()
		var record history.Recorder
		tally := record.Tally()
		used := func() { tally.Add(int64(time.Since(begun)), int64(time.Since(begun)), 1) }
		ctx := limittest.Shortly(t, 149*time.Second)
		var turns sync.WaitGroup
		for range 25 {
			turns.Go(func() {
				if _, err := rests.Acquire(ctx, 1); err == nil {
					used()
				}
			})
		}
		time.Sleep(time.Second)
		fl.Bubble[fl.Index(limittest.Peek(t, other).Shards[0].Node)].Down.Store(true)
		for time.Since(begun) < 5*time.Minute {
			if d, err := other.Allow(t.Context()); err == nil && d.Allowed {
				turns.Go(func() {
					time.Sleep(d.Delay)
					used()
				})
			}
			time.Sleep(500 * time.Millisecond)
		}
		turns.Wait()
		// turns are evenly spaced, so a window holds one more than the permits
		if worst, ok := history.Check(after.Per, after.Permits+1, record.Ops()); !ok {
			t.Error(worst)
		}
	})
}
