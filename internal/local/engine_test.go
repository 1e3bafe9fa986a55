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

func newEngine() *Engine { return &Engine{Clock: &clock.Clock{Base: time.Now()}} }

// grant is permits that acted, or will act, at an instant.
type grant struct {
	at time.Time
	n  int64
	g  Grant
}

// TestRandomCalls: whatever is taken, charged, given back, changed and cleared, as much is free as
// a naive count says. No window or bucket holds more than the limit. A caller that comes again when
// told to is served, and once nothing counts everything is free.
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
	if p.limit.Algorithm.Bursty() {
		p.limit.Burst = 1 + p.Int64N(20)
	}
	switch {
	case old.Permits == 0: // the first
		p.level, p.leveled = float64(p.limit.most()), time.Now()
	case p.algorithm == script.AlgorithmLeakyBucket: // it keeps its turns
		p.level, p.leveled = float64(p.limit.most())-p.rate()*float64(p.engine.Peek(p.limit).Reset), time.Now()
	default:
		p.level = min(p.level, float64(p.limit.most()))
	}
	if p.algorithm == script.AlgorithmSlidingLog || p.algorithm == script.AlgorithmSlidingCounter {
		p.grants = slices.DeleteFunc(p.grants, func(g grant) bool { return time.Since(g.at) >= old.Window })
		return
	}
	p.gone, p.grants = append(p.gone, p.grants...), nil
}

func (p *play) step() {
	e := &p.engine
	n := 1 + p.Int64N(min(p.limit.most(), 20))
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
			time.Sleep(time.Nanosecond)
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
		if charged > 0 && p.limit.Algorithm.Bursty() && e.Reset() > p.limit.Window {
			p.Fatalf("%+v: it is full in %s after a charge of %d", p.limit, e.Reset(), charged)
		}
		if p.algorithm != script.AlgorithmLeakyBucket { // in which nobody acts
			p.grants = append(p.grants, grant{time.Now(), charged, Grant{}})
		} else if charged > 0 { // behind all turns
			for i := range p.grants {
				p.grants[i].g.Receipt = Receipt{}
			}
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
			p.gone, p.grants, p.level, p.leveled = append(p.gone, p.grants...), nil, float64(p.limit.most()), time.Now()
		}
	}
}

// sink takes permits out of the bucket.
func (p *play) sink(n int64) {
	if p.limit.Permits == 0 { // there is no limit yet
		return
	}
	p.level = min(p.level+p.rate()*float64(time.Since(p.leveled)), float64(p.limit.most())) - float64(n)
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
	full := p.engine.Reset()
	came, _ := p.engine.Settle(n, g.g.Receipt, 0, 0)
	counts := time.Since(g.at) < p.limit.Window
	switch p.algorithm {
	case script.AlgorithmFixedWindow:
		counts = g.at.UnixNano()/int64(p.limit.Window) == time.Now().UnixNano()/int64(p.limit.Window)
	case script.AlgorithmTokenBucket:
		counts = false // see TestATokenBucketForgetsARefund
	case script.AlgorithmLeakyBucket:
		counts = time.Until(g.at) > time.Microsecond
	}
	if came < 0 || came > n || counts && g.g.Era == p.engine.era && g.g.Granted > 0 && came != n {
		p.Fatalf("%+v: %d of %d came back", p.limit, came, n)
	}
	p.sink(0)
	p.level += p.rate() * float64(full-p.engine.Reset())
	if once := g.g.Receipt; p.algorithm == script.AlgorithmLeakyBucket {
		for i := range p.grants {
			if p.grants[i].g.Receipt == once {
				p.grants[i].g.Receipt = Receipt{}
			}
		}
	}
	if p.algorithm == script.AlgorithmTokenBucket {
		came = n // they are not used, whatever of them came back
	}
	if g.n -= came; p.algorithm == script.AlgorithmLeakyBucket {
		p.grants = p.grants[:len(p.grants)-int(came)]
	}
}

// compare asks that as much is free as there is.
func (p *play) compare() {
	p.Helper()
	s := p.engine.Peek(p.limit)
	if s.Free > 0 && s.Reset == 0 && s.Used != 0 || s.Free < 0 ||
		s.Free > p.limit.most() || s.Free == 0 && s.Retry <= 0 {
		p.Fatalf("%+v: %+v", p.limit, s)
	}
	free := p.limit.Permits
	for _, g := range p.grants {
		if time.Since(g.at) < p.limit.Window {
			free -= g.n
		}
	}
	switch p.sink(0); {
	case p.limit.Algorithm.Bursty():
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
	charges := func(g grant) bool { return g.g.Granted == 0 }
	if err := over(p.limit, slices.DeleteFunc(slices.Clone(p.grants), charges)); err != nil {
		p.Fatal(err)
	}
}

// rest waits until nothing counts.
func (p *play) rest() {
	p.judge()
	time.Sleep(p.engine.Reset())
	if s := p.engine.Peek(p.limit); s.Used != 0 || s.Free != p.limit.most() ||
		p.engine.Take(p.limit, p.limit.most(), false).Granted != p.limit.most() {
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
			case script.AlgorithmLeakyBucket: // one acts at the beginning
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

// TestATokenBucketForgetsARefund: whatever is given back, a bucket holds no more than another one
// that never granted it. What is given back at once comes back, and later less by what came since.
func TestATokenBucketForgetsARefund(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 7))
			limit := Limit{Permits: 1 + r.Int64N(20), Window: time.Duration(1+r.Int64N(1e9)) * 1000,
				Algorithm: script.AlgorithmTokenBucket, Burst: 1 + r.Int64N(30)}
			refunds, other := newEngine(), newEngine()
			interval := limit.Window / time.Duration(limit.Permits)
			var unused []grant
			for range 200 {
				switch r.IntN(4) {
				case 0:
					if g := refunds.Take(limit, 1+r.Int64N(limit.Burst), false); g.Granted > 0 {
						unused = append(unused, grant{time.Now(), g.Granted, g})
					}
				case 1:
					if g := refunds.Take(limit, 1+r.Int64N(3), true); g.Granted > 0 {
						other.Take(limit, g.Granted, false)
					}
				case 2:
					time.Sleep(time.Duration(r.Int64N(int64(interval) * 3)))
				case 3:
					if len(unused) > 0 {
						i := r.IntN(len(unused))
						one, full := unused[i], refunds.Reset()
						refunds.Settle(one.n, one.g.Receipt, 0, 0)
						want := min(time.Duration(one.n)*interval-time.Since(one.at), full)
						if came := full - refunds.Reset(); came < want-interval/1000-time.Microsecond {
							t.Fatalf("seed %d, %+v: %s came back, want %s", seed, limit, came, want)
						}
						unused = slices.Delete(unused, i, i+1)
					}
				}
				held, want := refunds.Reset(), other.Reset()
				if near := interval/1000 + time.Microsecond; held < want-near {
					t.Fatalf("seed %d, %+v: full in %s, want %s", seed, limit, held, want)
				}
			}
		})
	}
}

// TestNote: what others granted counts, as far as there is room. Only what was charged is owed, and
// not what a lowered limit has too little.
func TestNote(t *testing.T) {
	for _, a := range algorithms {
		synctest.Test(t, func(t *testing.T) {
			e := newEngine()
			limit := Limit{Permits: 10, Window: time.Hour, Algorithm: a}
			for _, step := range []struct{ note, free int64 }{{4, 6}, {0, 6}, {100, 0}} {
				if e.Take(limit, step.note, true); e.Peek(limit).Free != step.free {
					t.Errorf("%v: %+v after %d", a, e.Peek(limit), step.note)
				}
			}
			limit.Permits = 5
			lowered := e.Take(limit, 5, true)
			e.Settle(0, Receipt{}, 1, 2*time.Hour)
			owes := e.Take(limit, 1, true)
			if lowered.Owes || lowered.Retry <= 0 || !owes.Owes || a.Bursty() && owes.Retry <= lowered.Retry {
				t.Errorf("%v: %+v, %+v", a, lowered, owes)
			}
		})
	}
}

// TestALeakyBucketAfterAChange: the next turn comes as long after the last as the new limit says,
// however often it is changed meanwhile.
func TestALeakyBucketAfterAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		limit := Limit{Permits: 1, Window: time.Second, Algorithm: script.AlgorithmLeakyBucket}
		e.Take(limit, 1, false)
		time.Sleep(time.Second + time.Millisecond)
		for _, window := range []time.Duration{10 * time.Second, 2 * time.Second, 20 * time.Second} {
			limit.Window = window
			if s := e.Peek(limit); s.Retry != window-time.Second-time.Millisecond {
				t.Errorf("%s: %+v", window, s)
			}
		}
	})
}

// TestALeakyBucketBecomesALog: its turns count when they come, also when the log, or a fixed
// window, gets another length.
func TestALeakyBucketBecomesALog(t *testing.T) {
	for _, to := range []script.Algorithm{script.AlgorithmSlidingLog, script.AlgorithmFixedWindow} {
		synctest.Test(t, func(t *testing.T) {
			e := newEngine()
			limit := Limit{Permits: 10, Window: time.Hour, Algorithm: script.AlgorithmLeakyBucket, Burst: 40}
			e.Take(limit, 40, false) // the last in 3.9 hours
			for _, window := range []time.Duration{time.Hour, time.Hour / 2} {
				limit = Limit{Permits: 10, Window: window, Algorithm: to}
				if s := e.Peek(limit); s.Free != 0 || s.Retry < 4*time.Hour {
					t.Errorf("%v, %s: %+v", to, window, s)
				}
			}
			if e.Settle(0, Receipt{}, 3, 0); e.Reset() < 4*time.Hour {
				t.Errorf("%v: %s", to, e.Reset())
			}
			time.Sleep(5 * time.Hour)
			if g := e.Take(limit, 10, true); g.Granted != 10 {
				t.Errorf("%v: %+v", to, g)
			}
		})
	}
}

// TestAnIdleBucketBecomesALog: nothing of it is used, though it was changed just before.
func TestAnIdleBucketBecomesALog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, limit := newEngine(), Limit{Permits: 10, Window: time.Hour, Algorithm: script.AlgorithmTokenBucket}
		e.Take(limit, 10, false)
		time.Sleep(2 * time.Hour)
		limit.Permits = 20
		e.Peek(limit)
		limit.Algorithm = script.AlgorithmSlidingLog
		if s := e.Peek(limit); s.Free != 20 {
			t.Errorf("%+v", s)
		}
	})
}

// TestAFixedWindowThatGrows: what was granted since comes back.
func TestAFixedWindowThatGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		time.Sleep(29 * time.Minute)
		limit := Limit{Permits: 10, Window: time.Minute, Algorithm: script.AlgorithmFixedWindow}
		e.Take(limit, 1, false)
		time.Sleep(time.Minute)
		e.Peek(limit)
		limit.Window = time.Hour
		g := e.Take(limit, 10, false)
		limit.Permits = 11 // one of them stays used
		e.Peek(limit)
		if came, _ := e.Settle(10, g.Receipt, 0, 0); came != 10 {
			t.Errorf("%d came back", came)
		}
	})
}

// TestOddLimits: the largest numbers and the longest times overflow nothing.
func TestOddLimits(t *testing.T) {
	for _, a := range algorithms {
		for _, limit := range []Limit{{1, script.MaxWindow, a, 1e9}, {1e12, 1, a, 1e12}, {1e12, script.MaxWindow, a, 1}} {
			e := newEngine()
			g := e.Take(limit, limit.most(), false)
			if g.Granted != limit.most() || g.Free != 0 || g.Reset < 0 {
				t.Errorf("%+v: %+v", limit, g)
			}
			if g := e.Take(limit, limit.most()+1, false); g.Granted != 0 || g.Retry != -1 {
				t.Errorf("%+v: %+v", limit, g)
			}
			for range 100 {
				_, charged := e.Settle(0, Receipt{}, 1e15, script.MaxWindow)
				if !limit.Algorithm.Bursty() && charged != limit.Permits {
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
				e := newEngine()
				limit := Limit{Permits: 10, Window: time.Hour, Algorithm: from}
				if g := e.Take(limit, 8, true); g.Granted != 8 || e.Take(limit, 3, false).Granted != 0 {
					t.Fatalf("%v: %+v", from, g)
				}
				changed := func(permits, used, free int64) {
					t.Helper()
					limit.Permits, limit.Algorithm = permits, to
					if s := e.Peek(limit); s.Used != used || s.Free != free || e.Take(limit, free+1, false).Granted != 0 ||
						from == script.AlgorithmTokenBucket && s.Reset > time.Hour {
						t.Errorf("%v to %v, %d: %+v", from, to, permits, s)
					}
				}
				switch {
				case limit.Algorithm.Bursty() && to != script.AlgorithmTokenBucket && to != script.AlgorithmLeakyBucket:
					changed(20, 20, 0) // for what was let through before is not known
					changed(5, 20, 0)
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

// TestALogIsBounded: many grants share entries. Their permits come back at most a 128th of a window
// late, and never early. The first ones are exact.
func TestALogIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		limit := Limit{Permits: 3000, Window: time.Hour}
		var one Grant // that shares an entry
		for i := range limit.Permits {
			if g := e.Take(limit, 1, false); i == 2990 {
				one = g
			}
			time.Sleep(limit.Window / 4000)
		}
		if n := len(e.rule.(*window).entries); n > 256 {
			t.Errorf("%d entries", n)
		}
		if came, _ := e.Settle(1, one.Receipt, 0, 0); came != 1 {
			t.Errorf("%d came back", came)
		}
		time.Sleep(limit.Window/4 - 1)
		for free := int64(0); free < 2998; free++ { // one of them has come back
			if got := e.Peek(limit).Free; got > free+1 || got < free+1-4000/128-1 || free < 100 && got != free+1 {
				t.Fatalf("%d free, want %d", got, free+1)
			}
			time.Sleep(limit.Window / 4000)
		}
	})
}
