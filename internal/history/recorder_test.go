package history

import (
	"sync"
	"testing"
)

func TestRecorder(t *testing.T) {
	var r Recorder
	var wg sync.WaitGroup
	const goroutines, calls = 8, 1000
	for g := range goroutines {
		wg.Go(func() {
			tally := r.Tally()
			for i := range calls {
				start := Now()
				tally.Add(start, Now(), int64(g+1))
				tally.Add(start, start, 0) // a denial
				if i%100 == 0 {
					r.Ops() // while others record
				}
			}
		})
	}
	wg.Wait()
	ops := r.Ops()
	if len(ops) != goroutines*calls {
		t.Errorf("%d operations, want %d", len(ops), goroutines*calls)
	}
	if got, want := Total(ops), int64(calls*goroutines*(goroutines+1)/2); got != want {
		t.Errorf("%d permits, want %d", got, want)
	}
	ops[0].Permits = 99
	if r.Ops()[0].Permits == 99 {
		t.Error("Ops is not a copy")
	}
}

func TestNowDoesNotGoBack(t *testing.T) {
	last := Now()
	for range 1000 {
		now := Now()
		if now < last {
			t.Fatalf("%d after %d", now, last)
		}
		last = now
	}
}
