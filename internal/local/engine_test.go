package local

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/script"
)

var algorithms = []script.Algorithm{script.AlgorithmSlidingLog, script.AlgorithmSlidingCounter,
	script.AlgorithmFixedWindow, script.AlgorithmTokenBucket, script.AlgorithmLeakyBucket}

// grant is permits that acted, or will act, at an instant.
type grant struct {
	at time.Time
	n  int64
	g  Grant
}

// TestRandomCalls: whatever is taken, charged, given back, changed and cleared, as much is free as
// a naive count says, and no window or bucket holds more than the limit. A caller that comes again
// when told to is served, and once nothing counts everything is free.
func TestRandomCalls(t *testing.T) {
	for seed := range uint64(400) {
		for _, a := range algorithms {
			synctest.Test(t, func(t *testing.T) {
				p := &play{T: t, Rand: rand.New(rand.NewPCG(seed, uint64(a))), algorithm: a}
				time.Sleep(time.Duration(p.Int64N(int64(time.Minute))))
				p.engine.Clock = &clock.Clock{Base: time.Now()}
				p.change()
				for range 80 {
					p.step()
					p.compare()
				}
				p.rest()
			})
		}
	}
}

// play is random calls on an engine, and what they come to.
type play struct {
	*testing.T
	*rand.Rand
	algorithm script.Algorithm
	engine    Engine
	limit     Limit
	grants    []grant // since the limit was changed, of a log also those that count
	gone      []grant // that cannot come back
	level     float64 // of a bucket
	leveled   time.Time
}

// most is how many permits there are at once.
func (p *play) most() int64 { return p.limit.most() }

// rate is how many permits a nanosecond brings.
func (p *play) rate() float64 { return float64(p.limit.Permits) / float64(p.limit.Window) }

// change puts another limit in force.
func (p *play) change() {
	time.Sleep(time.Duration(p.Int64N(2) * p.Int64N(1+int64(p.limit.Window))))
	p.judge()
	p.sink(0)
	defer func() { p.engine.Peek(p.limit) }() // so that it knows
	old := p.limit
	p.limit = Limit{Permits: 1 + p.Int64N(12), Window: time.Duration(1+p.Int64N(1e9)) * 7, Algorithm: p.algorithm}
	if p.limit.bursty() {
		p.limit.Burst = 1 + p.Int64N(20)
	}
	switch {
	case old.Permits == 0: // the first
		p.level, p.leveled = float64(p.most()), time.Now()
	case p.algorithm == script.AlgorithmLeakyBucket: // it keeps its turns
		p.level, p.leveled = float64(p.most())-p.rate()*float64(p.engine.Peek(p.limit).Reset), time.Now()
	default:
		p.level = min(p.level, float64(p.most()))
	}
	if p.algorithm == script.AlgorithmSlidingLog || p.algorithm == script.AlgorithmSlidingCounter {
		p.grants = slices.DeleteFunc(p.grants, func(g grant) bool { return time.Since(g.at) >= old.Window })
		return
	}
	p.gone, p.grants = append(p.gone, p.grants...), nil
}

func (p *play) step() {
	e := &p.engine
	n := 1 + p.Int64N(min(p.most(), 20))
	switch p.IntN(14) {
	case 0, 1, 2, 3, 4:
		g := e.Take(p.limit, n, false)
		if g.Granted == 0 && g.Retry <= 0 {
			p.Fatalf("%+v: %d refused, and no time told: %+v", p.limit, n, g)
		}
		if g.Granted == 0 && p.IntN(3) == 0 {
			time.Sleep(g.Retry - 1)
			if g = e.Take(p.limit, n, false); g.Granted != 0 {
				p.Fatalf("%+v: %d permits are there before it was told: %+v", p.limit, n, g)
			}
			time.Sleep(1)
			if g = e.Take(p.limit, n, false); g.Granted != n {
				p.Fatalf("%+v: %d permits are not there when they were to be: %+v", p.limit, n, g)
			}
		}
		p.granted(g)
	case 5, 6:
		p.granted(e.Take(p.limit, n, true))
	case 7: // more than there is: what a bucket gains within a time at the most
		_, charged := e.Settle(0, Receipt{}, n, p.limit.Window)
		p.sink(charged)
		if charged > 0 && p.limit.bursty() && e.Reset() > p.limit.Window {
			p.Fatalf("%+v: it is full in %s after a charge of %d", p.limit, e.Reset(), charged)
		}
		if p.algorithm != script.AlgorithmLeakyBucket { // in which nobody acts
			p.grants = append(p.grants, grant{time.Now(), charged, Grant{}})
		}
	case 8, 9:
		p.giveBack(n)
	case 10, 11:
		time.Sleep(time.Duration(p.Int64N(int64(p.limit.Window))))
	case 12:
		if p.IntN(3) == 0 {
			p.change()
		}
	case 13:
		if p.IntN(5) == 0 {
			p.judge()
			e.Peek(p.limit)
			e.Clear()
			p.gone, p.grants, p.level, p.leveled = append(p.gone, p.grants...), nil, float64(p.most()), time.Now()
		}
	}
}

// sink takes permits out of the bucket.
func (p *play) sink(n int64) {
	if p.limit.Permits == 0 { // there is no limit yet
		return
	}
	p.level = min(p.level+p.rate()*float64(time.Since(p.leveled)), float64(p.most())) - float64(n)
	p.leveled = time.Now()
}

func (p *play) granted(g Grant) {
	p.sink(g.Granted)
	p.grants = append(p.grants, acts(p.limit, g)...)
}

// giveBack gives back what was granted: nothing comes of what was forgotten since, and of a leaky
// bucket only the newest.
func (p *play) giveBack(n int64) {
	if len(p.gone) > 0 && p.IntN(3) == 0 {
		if came, _ := p.engine.Settle(n, p.gone[p.IntN(len(p.gone))].g.Receipt, 0, 0); came != 0 {
			p.Fatalf("%+v: %d came back of what is forgotten", p.limit, came)
		}
		return
	}
	if len(p.grants) == 0 {
		return
	}
	i := p.IntN(len(p.grants))
	if p.algorithm == script.AlgorithmLeakyBucket {
		one := p.grants[i].g.Receipt
		if i = len(p.grants) - 1; one.At < p.grants[i].g.At-1 {
			if came, _ := p.engine.Settle(n, one, 0, 0); came != 0 {
				p.Fatalf("%+v: %d came back that are not the last", p.limit, came)
			}
		}
	}
	g := &p.grants[i]
	n = min(n, g.n)
	came, _ := p.engine.Settle(n, g.g.Receipt, 0, 0)
	if came < 0 || came > n || !p.limit.bursty() && g.g.Granted > 0 && came != n && time.Since(g.at) < p.limit.Window &&
		p.algorithm != script.AlgorithmFixedWindow {
		p.Fatalf("%+v: %d of %d came back", p.limit, came, n)
	}
	p.sink(-came)
	if once := g.g.Receipt; p.algorithm == script.AlgorithmLeakyBucket {
		for i := range p.grants {
			if p.grants[i].g.Receipt == once {
				p.grants[i].g.Receipt = Receipt{}
			}
		}
	}
	if g.n -= came; p.algorithm == script.AlgorithmLeakyBucket {
		p.grants = p.grants[:len(p.grants)-int(came)]
	}
}

// compare asks that as much is free as there is.
func (p *play) compare() {
	p.Helper()
	s := p.engine.Peek(p.limit)
	if s.Free > 0 && s.Reset == 0 && s.Used != 0 || s.Free < 0 || s.Free > p.most() || s.Free == 0 && s.Retry <= 0 {
		p.Fatalf("%+v: %+v", p.limit, s)
	}
	free := p.limit.Permits
	for _, g := range p.grants {
		if time.Since(g.at) < p.limit.Window {
			free -= g.n
		}
	}
	switch p.sink(0); {
	case p.limit.bursty():
		if math.Abs(float64(s.Free)+.5-max(p.level, 0)) > .6 {
			p.Fatalf("%+v: %+v, want %f", p.limit, s, p.level)
		}
	case p.algorithm != script.AlgorithmFixedWindow && s.Free != max(free, 0):
		p.Fatalf("%+v: %+v, want %d free", p.limit, s, free)
	}
}

// judge asks that no more acted than may, by the limit that is replaced.
func (p *play) judge() {
	if p.algorithm == script.AlgorithmSlidingLog || p.algorithm == script.AlgorithmSlidingCounter {
		return // what is free is compared exactly
	}
	if err := over(p.limit, slices.DeleteFunc(slices.Clone(p.grants), func(g grant) bool { return g.g.Granted == 0 })); err != nil {
		p.Fatal(err)
	}
}

// rest waits until nothing counts.
func (p *play) rest() {
	p.judge()
	time.Sleep(p.engine.Reset())
	if s := p.engine.Peek(p.limit); s.Used != 0 || s.Free != p.most() ||
		p.engine.Take(p.limit, p.most(), false).Granted != p.most() {
		p.Fatalf("%+v: after all was free: %+v", p.limit, s)
	}
}

// acts returns when the permits of a grant act: those of a leaky bucket one at a time.
func acts(limit Limit, g Grant) (all []grant) {
	if limit.Algorithm != script.AlgorithmLeakyBucket || g.Granted < 2 {
		return []grant{{time.Now().Add(g.Delay), g.Granted, g}}
	}
	for i := range g.Granted {
		all = append(all, grant{time.Now().Add(g.First + time.Duration(int64(g.Delay-g.First)*i/(g.Granted-1))), 1, g})
	}
	return all
}

// over tells of an interval in which more acted than may.
func over(limit Limit, all []grant) error {
	slices.SortFunc(all, func(a, b grant) int { return a.at.Compare(b.at) })
	for i, first := range all {
		sum := int64(0)
		for k, last := range all[i:] {
			long, most := last.at.Sub(first.at), limit.Permits
			switch limit.Algorithm {
			case script.AlgorithmFixedWindow:
				if first.at.UnixNano()/int64(limit.Window) != last.at.UnixNano()/int64(limit.Window) {
					most = math.MaxInt64
				}
			case script.AlgorithmTokenBucket:
				most = limit.Burst + int64(float64(limit.Permits)*float64(long)/float64(limit.Window)+1e-6)
			case script.AlgorithmLeakyBucket: // of which one act is at the beginning
				most = 1 + int64(float64(limit.Permits)*float64(long+100)/float64(limit.Window))
			default:
				if long >= limit.Window {
					most = math.MaxInt64
				}
			}
			if sum += last.n; sum > most && (i+k+1 == len(all) || !all[i+k+1].at.Equal(last.at)) {
				return fmt.Errorf("%+v: %d permits within %s", limit, sum, long)
			}
		}
	}
	return nil
}

// TestOddLimits: the largest numbers and the longest times overflow nothing.
func TestOddLimits(t *testing.T) {
	for _, a := range algorithms {
		for _, limit := range []Limit{{1, script.MaxWindow, a, 1e9}, {1e12, 1, a, 1e12}, {1e12, script.MaxWindow, a, 1}} {
			e := &Engine{Clock: &clock.Clock{Base: time.Now()}}
			g := e.Take(limit, limit.most(), false)
			if g.Granted != limit.most() || g.Free != 0 || g.Reset < 0 {
				t.Errorf("%+v: %+v", limit, g)
			}
			if g := e.Take(limit, limit.most()+1, false); g.Granted != 0 || g.Retry != -1 {
				t.Errorf("%+v: %+v", limit, g)
			}
			for range 100 {
				if _, charged := e.Settle(0, Receipt{}, 1e15, script.MaxWindow); !limit.bursty() && charged != limit.Permits {
					t.Errorf("%+v: %d charged", limit, charged)
				}
			}
			if s := e.Peek(Limit{Permits: 2, Window: time.Second, Algorithm: a}); s.Used < 0 || s.Reset < 0 || s.Retry < 0 {
				t.Errorf("%+v: %+v", limit, s)
			}
		}
	}
}

// TestAChangeKeepsWhatIsUsed: also under another algorithm, for which it was used just now.
func TestAChangeKeepsWhatIsUsed(t *testing.T) {
	for _, from := range algorithms {
		for _, to := range algorithms {
			synctest.Test(t, func(t *testing.T) {
				e := &Engine{Clock: &clock.Clock{Base: time.Now()}}
				limit := Limit{Permits: 10, Window: time.Hour, Algorithm: from}
				if g := e.Take(limit, 8, true); g.Granted != 8 || e.Take(limit, 3, false).Granted != 0 {
					t.Fatalf("%v: %+v", from, g)
				}
				changed := func(permits, used, free int64) {
					t.Helper()
					limit.Permits, limit.Algorithm = permits, to
					if s := e.Peek(limit); s.Used != used || s.Free != free || e.Take(limit, free+1, false).Granted != 0 {
						t.Errorf("%v to %v, %d: %+v", from, to, permits, s)
					}
				}
				switch {
				case to == script.AlgorithmTokenBucket && from == to: // as many are in it as before
					changed(20, 18, 2)
					changed(5, 3, 2)
				case to == script.AlgorithmTokenBucket:
					changed(20, 8, 12)
					changed(5, 0, 5)
				case to == script.AlgorithmLeakyBucket && from == to: // the last turn is in 42 minutes
					changed(20, 15, 5)
					changed(5, 5, 0)
				case to == script.AlgorithmLeakyBucket: // in 21 minutes
					changed(20, 8, 12)
					changed(5, 3, 2)
				default:
					changed(20, 8, 12)
					changed(5, 8, 0)
				}
				if e.Clear(); e.Take(limit, 5, false).Granted != 5 {
					t.Errorf("%v to %v, cleared: %+v", from, to, e.Peek(limit))
				}
			})
		}
	}
}

// TestALogIsBounded: many grants share entries, and none of them comes back early.
func TestALogIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &Engine{Clock: &clock.Clock{Base: time.Now()}}
		limit := Limit{Permits: 3000, Window: time.Hour}
		for range limit.Permits {
			e.Take(limit, 1, false)
			time.Sleep(limit.Window / 4000)
		}
		if n := len(e.rule.(*window).entries); n > exact+parts {
			t.Errorf("%d entries", n)
		}
		time.Sleep(limit.Window/4 + limit.Window/8 + limit.Window/300)
		if s := e.Peek(limit); s.Free > 500+14 || s.Free < 500-32 {
			t.Errorf("%+v", s)
		}
	})
}

// TestManyGrantsLater: what a bucket no longer knows of one by one still counts.
func TestManyGrantsLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &Engine{Clock: &clock.Clock{Base: time.Now()}}
		limit := Limit{Permits: 1000, Window: 1000 * time.Second, Algorithm: script.AlgorithmTokenBucket}
		first := e.Take(limit, 100, false)
		time.Sleep(90 * time.Second)
		for range 2 * mostLows {
			e.Take(limit, 1, false)
		}
		if came, _ := e.Settle(100, first.Receipt, 0, 0); came > 10 {
			t.Errorf("%d came back, also what would have flowed over", came)
		}
	})
}
