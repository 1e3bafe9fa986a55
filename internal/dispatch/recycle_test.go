package dispatch

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A small batch is used again. The race detector has the pool drop some.
func TestASmallBatchIsUsedAgain(t *testing.T) {
	for name, call := range map[string]func(ctx context.Context, l *Lane){
		"a context of its own": func(ctx context.Context, l *Lane) { l.call(ctx, 1, false) },
		"none":                 func(_ context.Context, l *Lane) { l.call(context.Background(), 1, false) },
		"two": func(ctx context.Context, l *Lane) {
			l.call(ctx, 1, false)
			l.call(context.Background(), 2, true)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := grounded(t)
				for range 100 {
					ctx, cancel := context.WithCancel(t.Context())
					call(ctx, l)
					b := l.serve(9)
					synctest.Wait()
					cancel()
					if used := l.env.batches.Get(); used == nil {
						continue // dropped
					} else if used != b || b.serials != 0 || b.over.Load() || len(b.classes)+len(b.seats) != 0 {
						t.Errorf("%+v", used)
					}
					return
				}
				t.Error("no batch is used again")
			})
		})
	}
}

// Whoever has not read may yet do so: those who left, and what a call that was given up needs.
func TestABatchThatMayStillBeReadIsNotUsedAgain(t *testing.T) {
	for name, meddle := range map[string]func(l *Lane, leave func()){
		"somebody left in time":  func(_ *Lane, leave func()) { leave() },
		"somebody left too late": func(l *Lane, leave func()) { b := l.next(); leave(); l.land(b, []int64{2}, nil) },
		"the call was given up": func(l *Lane, _ func()) {
			d := &detour{section: section{lane: l, batch: l.next()}}
			d.watch(l.env, d.giveUp)
			d.expire()
			d.ring()
		},
		"more calls than a few": func(l *Lane, _ func()) {
			l.call(context.Background(), 3, true)
			l.call(context.Background(), 3, true)
			l.call(context.Background(), 3, true)
		},
		"not everybody has woken": func(l *Lane, _ func()) { l.join(&Ask{N: 1, Seat: l.seat()}); l.mu.Unlock() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := grounded(t)
				l.Terms.Store(&Terms{})
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				stays := l.call(context.Background(), 1, false)
				l.call(ctx, 1, false)
				meddle(l, func() { leave(); synctest.Wait() })
				time.Sleep(2 * watchGrace) // of the bubble
				l.serve(9)
				synctest.Wait()
				if !stays.ended.Load() {
					t.Error("not answered")
				}
				if l.env.batches.Get() != nil {
					t.Error("the batch would be used again")
				}
			})
		})
	}
}

// For the race detector: batches that are used again and again.
func TestSmallBatchesUnderLoad(t *testing.T) {
	l := grounded(t)
	l.env.CallTimeout = time.Hour
	var callers sync.WaitGroup
	land := keepFlying(t, l, func() int64 { return 9 })
	shared, cancel := context.WithCancel(t.Context())
	defer cancel()
	for i := range 3 {
		callers.Go(func() {
			for range 2000 {
				ctx, end := shared, func() {}
				switch rand.IntN(8) {
				case 0, 1, 2:
					ctx = context.Background()
				case 3:
					ctx, end = context.WithTimeout(shared, time.Duration(rand.IntN(50))*time.Microsecond)
				case 4:
					ctx, end = context.WithCancel(shared)
				}
				now := l.env.Clock.Now()
				a := Ask{N: int64(i + 1), Since: now}
				if err := l.seat().Ask(ctx, &a, now); err == nil && a.Granted != a.N {
					t.Errorf("%d of %d granted", a.Granted, a.N)
				}
				end()
			}
		})
	}
	callers.Wait()
	land()
	if n := l.Waiting.Load(); n != 0 {
		t.Errorf("%d wait for ever", n)
	}
}
