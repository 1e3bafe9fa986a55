package fleet

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestFirstCallsAreTriedAgain: a node that is too slow for its first calls, so that a
// breaker turns callers away for a while, does not end the job; one that never answers does.
func TestFirstCallsAreTriedAgain(t *testing.T) {
	errAway := errors.New("away")
	for _, away := range []time.Duration{0, 10 * time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			var answered atomic.Int64
			begin, job := time.Now(), Job{Callers: 3, Life: time.Minute}
			err := rehearse(t.Context(), job, []allow{func(context.Context) (bool, error) {
				if time.Since(begin) < away {
					return false, errAway
				}
				answered.Add(1)
				return true, nil
			}})
			if away > job.Life {
				if !errors.Is(err, errAway) || time.Since(begin) > job.Life {
					t.Errorf("ended after %s with %v", time.Since(begin), err)
				}
			} else if err != nil || answered.Load() != int64(job.Callers) {
				t.Errorf("away for %s: %d callers were answered, err %v", away, answered.Load(), err)
			}
		})
	}
}
