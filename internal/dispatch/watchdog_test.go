package dispatch

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit/internal/clock"
)

// An answer that is there when the time of a call is up, though nobody has read it yet, counts. Of
// some sixty goroutines that yield the scheduler goes on with one at once.
func TestAnAnswerThatIsThereIsReadFirst(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // else both may go on at once
	const plays = 20
	counted := 0
	for range plays {
		synctest.Test(t, func(t *testing.T) {
			env := &Env{Ctx: t.Context(), Clock: &clock.Clock{Base: time.Now()}}
			var w watchdog
			w.watch(env, func() { t.Error("it was given up") })
			const budget = 100 * time.Millisecond
			answer := time.After(budget)
			w.begin(env.Clock.Now(), budget)
			<-answer
			if awaited, _ := w.finish(); !awaited {
				t.Error("it was answered twice")
			}
			if w.Err() == nil {
				counted++
			}
			time.Sleep(2 * watchGrace)
		})
	}
	if counted < plays*3/4 {
		t.Errorf("%d of %d counted", counted, plays)
	}
}
