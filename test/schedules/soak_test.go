package schedules

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

var (
	soakFor  = flag.Duration("soak", 0, "how long TestSoak goes on; with 0 it plays one short round")
	soakKeys = flag.Int("soak.keys", 10_000, "how many keys TestSoak calls now and then")
)

const (
	soakRows = 12 // in how many parts a soak is looked at
	hotKeys  = 4  // how many keys are called all the time
	// leakAfter is how long a soak must be to tell a leak from pools that fill.
	leakAfter = 10 * time.Minute
)

// TestSoak keeps four real servers, three processes, a limit and the keys of a family in use while
// servers break and are mended, round after round: no window is over, the limit is whole at the end
// of each round, and neither memory nor goroutines grow.
func TestSoak(t *testing.T) {
	if *soakFor == 0 {
		t.Parallel()
	}
	s := &soak{schedule: schedule{T: t, Rand: rand.New(rand.NewPCG(*schedulesSeed, 1)), mild: true, takeover: true,
		tally: &tally{}, plan: &schedulePlan{kind: "standalone"}}}
	began := time.Now()
	s.begin(shardlimit.Limit{Permits: 600, Per: time.Second, Shards: 4})
	s.families = s.guardKeys(hotKeys, shardlimit.Limit{Permits: 20, Per: time.Second})
	if *soakFor == 0 {
		s.round(2)
		s.left()
		return
	}
	for i := range *soakKeys { // what a process remembers of a key is no leak
		for _, f := range s.families {
			s.cool(f, i)
		}
	}
	var rows []left
	for row := 1; row <= soakRows && !t.Failed(); row++ {
		s.round(4 + s.IntN(6))
		least := s.left()
		for time.Since(began) < *soakFor*time.Duration(row)/soakRows && !t.Failed() {
			s.round(4 + s.IntN(6))
			least = least.and(s.left())
		}
		rows = append(rows, least)
		t.Logf("after %v: %+v; %v", time.Since(began), least, s.tally)
	}
	if *soakFor >= leakAfter && !t.Failed() {
		if what := grown(rows); what != "" {
			t.Error(what)
		}
	}
}

// soak is a soak under way.
type soak struct {
	schedule
	families []*shardlimit.Family // of each process
}

// round breaks servers and mends them while all are called.
func (s *soak) round(events int) {
	s.start()
	for range 500 {
		s.cool(s.families[s.IntN(len(s.families))], s.IntN(*soakKeys))
	}
	var happen []disturbance
	for i := range events {
		happen = append(happen, drawDisturbance(s.Rand, i))
	}
	s.disturb(happen)
	for _, g := range s.limits {
		g.stop()
		g.judge()
	}
}

// cool calls a key that is called now and then.
func (s *soak) cool(f *shardlimit.Family, key int) {
	_, _ = f.Limiter(fmt.Sprint("cool ", key)).Allow(s.Context())
}

// left is what is in use while nothing is called. After a single round more may be than stays: what
// is still being read, or about to expire. So the least of several counts.
type left struct {
	heap       float64 // bytes
	goroutines float64
	stored     float64 // keys on all nodes
}

func (s *soak) left() left {
	var m runtime.MemStats
	for range 2 { // a pool outlives one collection
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	now := left{heap: float64(m.HeapAlloc), goroutines: float64(runtime.NumGoroutine())}
	for _, st := range s.stations {
		var keys float64
		limittest.Must(s.T, limittest.Err(fmt.Sscan(st.post.Do(s.T, "DBSIZE"), &keys)))
		now.stored += keys
	}
	return now
}

// and is the least of two.
func (l left) and(m left) left {
	return left{min(l.heap, m.heap), min(l.goroutines, m.goroutines), min(l.stored, m.stored)}
}

// grown tells, if anything grew, of what the last quarter of the rows needed half as much again as
// the second did. A few keys more are none that stay: those that were called last have not expired.
func grown(rows []left) string {
	least := func(rows []left) (l left) {
		for l = rows[0]; len(rows) > 0; rows = rows[1:] {
			l = l.and(rows[0])
		}
		return l
	}
	was, is := least(rows[soakRows/4:soakRows/2]), least(rows[3*soakRows/4:])
	if is.heap > 1.5*was.heap || is.goroutines > 1.5*was.goroutines || is.stored > 1.5*was.stored+200 {
		return fmt.Sprintf("%+v became %+v", was, is)
	}
	return ""
}

// TestASoakFindsLeaks: what swings is none.
func TestASoakFindsLeaks(t *testing.T) {
	for name, c := range map[string]struct {
		left  func(row float64) left
		leaks bool
	}{
		"memory grows":    {func(row float64) left { return left{heap: 1000 + 200*row} }, true},
		"goroutines stay": {func(row float64) left { return left{goroutines: 9 + 2*row} }, true},
		"keys stay":       {func(row float64) left { return left{stored: 100 * row} }, true},
		"it swings": {func(row float64) left {
			return left{1000 + 5000*float64(int(row)%2), 9, float64(20 + 30*int(row)%180)}
		}, false},
	} {
		var rows []left
		for row := range soakRows {
			rows = append(rows, c.left(float64(row)))
		}
		if found := grown(rows); (found != "") != c.leaks {
			t.Errorf("%s: %v", name, found)
		}
	}
}
