package dispatch

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit/internal/clock"
)

// An answer that is there when the time of a call is up, though nobody has read it yet, counts.
func TestAnAnswerThatIsThereIsReadFirst(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // else both may go on at once
	synctest.Test(t, func(t *testing.T) {
		env := &Env{Ctx: t.Context(), Clock: &clock.Clock{Base: time.Now()}}
		var w watchdog
		w.watch(env, func() { t.Error("it was given up") })
		const budget = 100 * time.Millisecond
		answer := time.After(budget)
		w.begin(env.Clock.Now(), budget)
		<-answer
		if awaited, _ := w.finish(); !awaited || w.Err() != nil {
			t.Errorf("awaited %t, %v", awaited, w.Err())
		}
		time.Sleep(2 * watchGrace)
	})
}
