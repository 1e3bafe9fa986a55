package promises

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// Callers who wait for a key hear that its family has another limit, however long the window is: at
// once in the process that changes it, and soon in another one.
func TestWaitersOfKeysHearOfAChange(t *testing.T) {
	ten := shardlimit.PerDay(10)
	for name, c := range map[string]struct {
		to    shardlimit.Limit
		n     int64 // that the caller wants
		other bool  // process changes it
		most  time.Duration
	}{
		"raised":        {shardlimit.PerDay(100), 1, false, time.Second},
		"raised, many":  {shardlimit.PerDay(100), 3, false, time.Second},
		"off":           {in(shardlimit.Off, ten), 1, false, time.Second},
		"off elsewhere": {in(shardlimit.Off, ten), 1, true, 5 * time.Second},
		"raised there":  {shardlimit.PerDay(100), 1, true, 5 * time.Second},
	} {
		limittest.RunInBubble(t, name, 1, func(t *testing.T, f limittest.Fleet) {
			fam, by := limittest.Family(t, f.Client(t), "f", ten), limittest.Family(t, f.Client(t), "f", ten)
			if !c.other {
				by = fam
			}
			mustDecide(t, fam.Limiter("k"), 10, true, false)
			ctx, cancel := context.WithCancel(t.Context()) // a deadline would end the wait at once
			time.AfterFunc(time.Minute, cancel)
			waited := make(chan error)
			go func() { waited <- fam.Limiter("k").WaitN(ctx, c.n) }()
			synctest.Wait()
			began := time.Now()
			limittest.Must(t, by.SetLimit(t.Context(), c.to))
			if err := <-waited; err != nil || time.Since(began) > c.most {
				t.Errorf("%v after %v", err, time.Since(began))
			}
		})
	}
}
