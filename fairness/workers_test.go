package fairness

import (
	"fmt"
	"testing"

	"github.com/shardlimit/shardlimit/internal/extent"
)

// TestSimulatedWorkers: two participants with weights 1 and 3 whose callers wait, again and again.
// How many of them wait says nothing of what they want: they get their parts all the same, whatever
// they had taken before they were seen to contend, and wherever in the ledger's windows that was.
func TestSimulatedWorkers(t *testing.T) {
	for _, shards := range []int{1, 4} {
		for _, waiters := range []int64{20, 200} {
			for phase := range int64(4) {
				s := newSim(t, 2000, shards)
				for _, weight := range []int64{1000, 3000} {
					c := s.add(weight, nil)
					c.waiters, c.nap = waiters, epoch+phase*simWindow/4
				}
				s.run(14, 8)
				r := s.result(6)
				t.Logf("%d callers on %d shards, phase %d: from %.3f to %.3f of a part, use %.3f, calls %.2f; %v and "+
					"%v", waiters, shards, phase,
					r.least, r.most, r.use, r.calls, s.clients[0].perWindow, s.clients[1].perWindow)
				if r.least < 0.96 || r.most > 1.02 || r.use < 0.975 { // seen: .975, 1.007, .980
					t.Error("not served by weight, or permits are wasted")
				}
			}
		}
	}
}

// TestSimulatedWork: half of the participants work between one permit and the next, so that they
// want less than their part or little more; the others want all they can get. With a caller alone
// part of its time goes by for want of permits, which cannot be made up for.
func TestSimulatedWork(t *testing.T) {
	for _, people := range []int{4, 40} {
		if people == 40 && !extent.Full {
			continue
		}
		for _, wanted := range []float64{0.3, 0.6, 0.95, 1.2} {
			for _, waiters := range []int64{1, 5, 20} {
				s := newSim(t, 2000, 1)
				for i := range people {
					c := s.add(1000, nil)
					if c.waiters = waiters; i%2 == 0 {
						c.think = int64(float64(waiters) * simWindow * float64(people) / (wanted * 2000))
					}
				}
				s.run(12, 2)
				r := s.result(10)
				t.Logf("%-30s from %.3f to %.3f of a part, use %.3f, calls %.2f",
					fmt.Sprint(people, " with ", waiters, " callers want ", wanted), r.least, r.most, r.use, r.calls)
				if r.use < 0.97 || people == 4 && r.least < 0.925 { // seen: .978, .933
					t.Error("who works gets less than its part, or permits are wasted")
				}
			}
		}
	}
}
