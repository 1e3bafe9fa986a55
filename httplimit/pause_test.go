package httplimit

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// Pauses of many hosts leave nothing behind when they are over.
func TestPausesThatAreOverAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pauses := NewPauses(time.Minute)
		for i := range 5000 {
			if err := pauses.Begin(t.Context(), fmt.Sprint("host ", i), time.Second); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if n := len(pauses.known); n > 1024 {
			t.Errorf("%d are remembered", n)
		}
	})
}
