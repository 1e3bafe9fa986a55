package membership

import (
	"flag"
	"testing"
	"testing/synctest"
	"time"
)

var readers = flag.Int("readers", 200, "how many processes TestReadsOfManyProcesses has")

// However often processes call, each reads the membership once in a third of the time for which it
// relies on it, at every place. With -v the test tells how many reads that is.
func TestReadsOfManyProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const seconds, between = 10, 100 * time.Millisecond
		w := newTown(t)
		var fences []*Fence
		for range *readers {
			fences = append(fences, w.process(t))
			time.Sleep(confirmEvery / time.Duration(*readers)) // they were not started at one instant
		}
		each := make([]float64, len(w.servers))
		for i, s := range w.servers {
			each[i] = -float64(s.Scripts.Load())
		}
		for range seconds * int(time.Second/between) {
			for _, f := range fences {
				f.Refresh()
			}
			time.Sleep(between)
		}
		for i, s := range w.servers {
			each[i] = (each[i] + float64(s.Scripts.Load())) / seconds
		}
		t.Logf("%d processes: %.0f reads a second at each of the places; %v at each node", *readers, each[0], each)
		most := float64(*readers) / confirmEvery.Seconds() * 1.1
		for i := range places {
			if each[i] < most/2 || each[i] > most {
				t.Errorf("place %d: %.1f reads a second, want at most %.1f", i, each[i], most)
			}
		}
		if each[3] > 0 {
			t.Errorf("a node that is no place is read %.1f times a second", each[3])
		}
	})
}
