package line

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// Callers go in the order in which they came, one at a time, but those that left.
func TestTurnsComeInOrderOfArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var line Line
		gone, end := context.WithCancelCause(t.Context())
		left := errors.New("left")
		place := make(chan int, 1) // who has it
		next := make(chan struct{})
		for i := range 6 {
			ctx := t.Context()
			if i == 2 || i == 4 {
				ctx = gone
			}
			go func() {
				leave, err := line.Join(ctx)
				if err != nil {
					if ctx != gone || !errors.Is(err, left) {
						t.Errorf("caller %d: %v", i, err)
					}
					return
				}
				place <- i
				<-next
				leave()
			}()
			synctest.Wait()
		}
		if n := line.Len(); n != 6 {
			t.Fatalf("%d callers in the line", n)
		}
		end(left)
		synctest.Wait()
		for _, want := range []int{0, 1, 3, 5} {
			synctest.Wait()
			if len(place) != 1 {
				t.Fatalf("%d callers go at once", len(place))
			}
			if got := <-place; got != want {
				t.Errorf("%d goes, not %d", got, want)
			}
			next <- struct{}{}
		}
		synctest.Wait()
		if n := line.Len(); n != 0 {
			t.Errorf("%d callers are left in the line", n)
		}
	})
}
