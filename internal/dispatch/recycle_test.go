package dispatch

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

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
