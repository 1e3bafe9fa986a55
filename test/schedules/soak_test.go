package schedules

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/history"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

var (
	soakFor  = flag.Duration("soak", 0, "how long TestSoak goes on; with 0 it plays one short round")
	soakKeys = flag.Int("soak.keys", 10_000, "how many keys TestSoak calls now and then")
)

// TestSoak keeps four real servers, three processes, a limit and the keys of a family in use while
// servers break and are mended, round after round: no window is over, the limit is whole at the end
// of each round, and neither memory nor goroutines grow.
func TestSoak(t *testing.T) {
	if *soakFor == 0 {
		t.Parallel()
	}
	s := &soak{began: time.Now(), schedule: schedule{
		T: t, Rand: rand.New(rand.NewPCG(*schedulesSeed, 1)), mild: true, takeover: true, tally: &tally{},
		plan: &schedulePlan{kind: "standalone"},
	}}
	s.limit = shardlimit.Limit{Permits: 600, Per: time.Second, Shards: 4}
	s.begin(s.limit)
	for _, c := range s.clients {
		s.families = append(s.families, limittest.Family(t, c, "f", soakedKey))
	}
	if *soakFor == 0 {
		s.round(2)
		s.measure()
		return
	}
	for i := range *soakKeys { // what a process remembers of a key is no leak
		for _, f := range s.families {
			_, _ = f.Limiter(fmt.Sprint("cool ", i)).Allow(t.Context())
		}
	}
	for row := 1; time.Since(s.began) < *soakFor && !t.Failed(); row++ {
		until := s.began.Add(*soakFor * time.Duration(row) / soakRows)
		for s.row.rounds == 0 || time.Now().Before(until) && !t.Failed() {
			s.round(4 + s.IntN(6))
			s.measure()
		}
		s.report()
	}
	s.leaks()
}

// soakRows is in how many parts a soak is looked at.
const soakRows = 12

var soakedKey = shardlimit.Limit{Permits: 20, Per: time.Second}

// soak is a soak under way.
type soak struct {
	schedule
	limit    shardlimit.Limit
	families []*shardlimit.Family
	began    time.Time
	carried  [hotKeys + 1][]history.Op // the last window of the limit, and of each hot key
	row      soakRow
	rows     []soakRow
}

// hotKeys is how many keys are called all the time.
const hotKeys = 4

// soakRow is what was seen in a number of rounds.
type soakRow struct {
	until          time.Duration
	rounds         int
	calls, permits int64
	errors         int64
	most           [2]int64      // in any window: of the limit, of a hot key
	mended         time.Duration // the longest until the limit was whole
	left           soakLeft
}

// soakLeft is the least that was in use after any round of a row. After a single one more may be:
// what is still being read, or about to expire.
type soakLeft struct {
	heap       uint64 // bytes
	goroutines int
	stored     int // keys on all nodes
}

// round breaks servers and mends them while all are called.
func (s *soak) round(events int) {
	calls := [hotKeys + 1]*limittest.Traffic{}
	for i := range calls {
		calls[i] = limittest.MakeTraffic()
		calls[i].Dying, calls[i].Rest = true, 5*time.Millisecond
		defer calls[i].End() // in case the test fails before it has looked
	}
	calls[0].Start(3, s.main.limiters...)
	for i := range hotKeys {
		for _, f := range s.families {
			calls[i+1].Start(1, f.Limiter(fmt.Sprint("hot ", i)))
		}
	}
	for range 500 {
		_, _ = s.families[s.IntN(3)].Limiter(fmt.Sprint("cool ", s.IntN(*soakKeys))).Allow(s.Context())
	}
	for i := range events {
		e := drawDisturbance(s.Rand, i)
		s.happens(e)
		time.Sleep(e.pause)
	}
	healing := time.Now()
	s.heal()
	s.row.mended = max(s.row.mended, time.Since(healing))
	for i, c := range calls {
		limit := soakedKey
		if i == 0 {
			limit = s.limit
		}
		s.row.most[min(i, 1)] = max(s.row.most[min(i, 1)], s.judge(i, limit, c))
	}
	s.row.rounds++
}

// judge ends the traffic and returns the most that any window held. The last window of the round
// before counts, too.
func (s *soak) judge(i int, limit shardlimit.Limit, calls *limittest.Traffic) int64 {
	ops, err := calls.Stop()
	if err != nil && !limittest.IsOutage(err) {
		s.Error(err)
	}
	s.row.calls += calls.Calls.Load()
	s.row.permits += calls.Admitted.Load()
	s.row.errors += calls.Failures.Load()
	worst := limittest.KeepsTo(s.T, limit, append(s.carried[i], ops...))
	s.carried[i] = nil
	for _, op := range ops {
		if op.End > history.Now()-int64(limit.Per) {
			s.carried[i] = append(s.carried[i], op)
		}
	}
	return worst.Permits
}

// measure looks at what is in use while nothing is called. The least in a row is kept.
func (s *soak) measure() {
	var m runtime.MemStats
	for range 2 { // a pool outlives one collection
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	now := soakLeft{heap: m.HeapAlloc, goroutines: runtime.NumGoroutine()}
	for _, st := range s.stations {
		now.stored += keysOn(s.T, st.post)
	}
	s.row.left.keep(now)
}

// keep takes what was in use after a round into account.
func (l *soakLeft) keep(now soakLeft) {
	if *l == (soakLeft{}) {
		*l = now
		return
	}
	*l = soakLeft{min(l.heap, now.heap), min(l.goroutines, now.goroutines), min(l.stored, now.stored)}
}

// keysOn returns how many keys a node has.
func keysOn(tb testing.TB, p *limittest.ProxiedNode) (n int) {
	tb.Helper()
	limittest.Must(tb, limittest.Err(fmt.Sscan(p.Do(tb, "DBSIZE"), &n)))
	return n
}

// leakAfter is how long a soak must be to tell a leak from pools that fill.
const leakAfter = 10 * time.Minute

// leaks fails the test if something has grown.
func (s *soak) leaks() {
	if *soakFor < leakAfter {
		return
	}
	for _, what := range grown(s.rows) {
		s.Error(what)
	}
}

// grown tells of what the last quarter of the rows needed half as much again as the second did. A
// few keys more are none that stay: those that were called last have not expired.
func grown(rows []soakRow) (found []string) {
	if len(rows) < soakRows {
		return nil
	}
	early, late := rows[soakRows/4:soakRows/2], rows[3*soakRows/4:]
	for _, what := range []struct {
		name string
		more float64
		of   func(soakRow) float64
	}{
		{"bytes of heap", 0, func(r soakRow) float64 { return float64(r.left.heap) }},
		{"goroutines", 0, func(r soakRow) float64 { return float64(r.left.goroutines) }},
		{"keys on the nodes", 200, func(r soakRow) float64 { return float64(r.left.stored) }},
	} {
		if was, is := least(early, what.of), least(late, what.of); is > 1.5*was+what.more {
			found = append(found, fmt.Sprintf("%s grew from %.0f to %.0f", what.name, was, is))
		}
	}
	return found
}

// TestASoakFindsLeaks: what swings is none.
func TestASoakFindsLeaks(t *testing.T) {
	for name, c := range map[string]struct {
		left func(row int) soakLeft
		want int
	}{
		"memory grows": {func(row int) soakLeft { return soakLeft{heap: 1000 + 200*uint64(row)} }, 1},
		"keys stay":    {func(row int) soakLeft { return soakLeft{stored: 100 * row} }, 1},
		"it swings":    {func(row int) soakLeft { return soakLeft{1000 + 5000*uint64(row%2), 9, 20 + 30*row%180} }, 0},
	} {
		rows := make([]soakRow, soakRows)
		for i := range rows {
			left := c.left(i)
			left.goroutines = 100
			rows[i].left.keep(soakLeft{left.heap + 1, 100, left.stored + 900})
			rows[i].left.keep(left)
			rows[i].left.keep(soakLeft{left.heap * 9, 900, left.stored + 1})
			if rows[i].left != left {
				t.Errorf("of row %d is kept %+v, want %+v", i, rows[i].left, left)
			}
		}
		if found := grown(rows); len(found) != c.want {
			t.Errorf("%s: %v", name, found)
		}
	}
}

func least(rows []soakRow, of func(soakRow) float64) float64 {
	x := of(rows[0])
	for _, r := range rows {
		x = min(x, of(r))
	}
	return x
}

// report closes a row and logs it.
func (s *soak) report() {
	s.row.until = time.Since(s.began)
	s.Logf("%+v", s.row)
	s.rows = append(s.rows, s.row)
	s.row = soakRow{}
}
