package ledger

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/shardlimit/shardlimit/fairness"
)

const (
	simStep   = 1000
	simWindow = 1_000_000
	epoch     = int64(1_700_000_000_000_000)
)

// contest is a shard for whose permits rivals contend, in steps of a millisecond.
type contest struct {
	ledger    Ledger
	term      Term
	free      int64
	contended bool                       // somebody was refused: only then there is a ledger
	log       [simWindow / simStep]int64 // what was granted in each step of the last window
	oldest    int64                      // the first step whose permits are not free again
	rivals    []*rival
	rng       *rand.Rand
}

// rival is a participant of a contest. It keeps away until its hint.
type rival struct {
	fairness.Caller
	rate  float64 // permits a window that it wants
	hasty bool    // it heeds no hint
	boast int64   // thousandths of a permit that it claims to have denied for good, with every call
	names int     // it calls under so many in turn; 0: one
	due   float64 // what it wants by now
	open  int64   // when it may ask again
	asked int
	got   int64
}

func newContest(share int64) *contest {
	return &contest{term: Term{Now: epoch, Window: simWindow, Share: share}, free: share,
		rng: rand.New(rand.NewPCG(7, uint64(share)))}
}

func (c *contest) add(weight int64, rate float64) *rival {
	r := &rival{Caller: fairness.Caller{ID: fmt.Sprintf("%016x", len(c.rivals)), Weight: weight}, rate: rate}
	c.rivals = append(c.rivals, r)
	return r
}

// play plays so many windows, and counts what each is granted in them.
func (c *contest) play(windows int) {
	for _, r := range c.rivals {
		r.got = 0
	}
	for range windows * len(c.log) {
		c.step()
	}
}

func (c *contest) step() {
	c.term.Now += simStep
	now, window := c.term.Now/simStep, int64(len(c.log))
	granted := &c.log[now%window]
	c.free, *granted = c.free+*granted, 0
	for c.oldest = max(c.oldest, now-window+1); c.oldest < now && c.log[c.oldest%window] == 0; {
		c.oldest++
	}
	for _, i := range c.rng.Perm(len(c.rivals)) {
		r := c.rivals[i]
		r.due += r.rate / float64(len(c.log))
		count := int64(r.due)
		if r.due -= float64(count); count == 0 {
			continue
		}
		if r.names > 0 {
			r.ID = fmt.Sprintf("%016x", 1000+r.asked%r.names)
			r.asked++
		}
		if r.open > c.term.Now && !r.hasty && r.names == 0 {
			r.Unmet += milli * count
			continue
		}
		next, n, retry := (c.oldest+window-now)*simStep, min(count, c.free), []int64{0}
		if c.contended {
			_, retry, n, _ = c.ledger.Grant(nil, nil, c.term, c.free, next, []fairness.Caller{r.Caller},
				[]fairness.Ask{{Size: 1, Count: count}})
		}
		c.contended = c.contended || n < count
		c.free, *granted, r.got = c.free-n, *granted+n, r.got+n
		if r.Unmet, r.open = milli*(count-n)+r.boast, c.term.Now+retry[0]; c.free == 0 {
			r.open = max(r.open, c.term.Now+next)
		}
	}
}

// TestServiceOfTwoDiffersByTheirDepths: two participants that always want more than they get are
// served alike by weight. From the seventh window of contention on, their permits per weight in any
// window differ by at most the credit that their two accounts can hold, per weight, and two
// permits each: with one each, a draw in some thousand is a part of a permit over. Beside them are
// others that want less than their part.
func TestServiceOfTwoDiffersByTheirDepths(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(100, 3000).Draw(t, "limit")
		c, total := newContest(limit), 0.0
		many := rapid.IntRange(2, 12).Draw(t, "backlogged")
		for range many {
			total += float64(c.add(1000*rapid.Int64Range(1, 4).Draw(t, "weight"), 20_000).Weight)
		}
		lights := rapid.IntRange(1, 5).Draw(t, "light")
		part := float64(limit) * 1000 / (total + 1000*float64(lights))
		want := part * rapid.Float64Range(0.01, 0.9).Draw(t, "of their part that the light want")
		for range lights {
			c.add(1000, want)
		}
		c.play(6)
		served := make([][]int64, many) // since then, by step
		for range 5 * len(c.log) {
			c.step()
			for i := range served {
				served[i] = append(served[i], c.rivals[i].got)
			}
		}
		slack := func(r *rival) float64 {
			return (depth(float64(limit)*float64(r.Weight)/total) + 2) * 1000 / float64(r.Weight)
		}
		for i, a := range c.rivals[:many] {
			for k, b := range c.rivals[:i] {
				for from := range served[i][len(c.log):] {
					in := func(who int, r *rival) float64 {
						return float64(served[who][from+len(c.log)]-served[who][from]) * 1000 / float64(r.Weight)
					}
					if worst := math.Abs(in(i, a) - in(k, b)); worst > slack(a)+slack(b) {
						t.Fatalf("permits per weight differ by %.1f in a window, at most %.1f expected", worst,
							slack(a)+slack(b))
					}
				}
			}
		}
	})
}

// TestCheatsGainNothing: who heeds no hint, claims much and wants little, or invents a name for
// every call, has hardly more than one part, and keeps nothing from the others.
func TestCheatsGainNothing(t *testing.T) {
	for name, cheat := range map[string]func(r *rival){
		"hasty":    func(r *rival) { r.hasty = true },
		"boaster":  func(r *rival) { r.rate, r.boast, r.Waiting = 20, 1e9, 1e6 },
		"inventor": func(r *rival) { r.names = 1 << 30 },
	} {
		c := newContest(2000)
		for range 20 {
			c.add(1000, 200)
		}
		cheat(c.rivals[0])
		c.play(3)
		c.play(10)
		cheats, least, use := float64(c.rivals[0].got)/1000, 2.0, int64(0)
		for i, r := range c.rivals {
			if use += r.got; i > 0 {
				least = min(least, float64(r.got)/1000)
			}
		}
		if cheats > 1.05 || least < 0.97 || use < 19_600 { // seen: 1.003, 0.998, 19,900
			t.Errorf("the %s has %.3f of its part, the least of the others %.3f, and %d permits were used", name,
				cheats, least, use)
		}
	}
}

// TestNamesThatAreKeptAlive: a client keeps as many invented names alive as there are accounts, by
// a call now and then. Tenants that come then have their parts, and so has one that was there.
func TestNamesThatAreKeptAlive(t *testing.T) {
	const limit, tenants = 50_000, 10
	for _, perWindow := range []float64{0.7, 2} {
		c := newContest(limit)
		c.add(1000, 3*limit)
		c.add(1000, 2*limit/tenants)
		c.add(1000, perWindow*fairness.MaxAccounts).names = fairness.MaxAccounts
		c.play(4)
		for range tenants {
			c.add(1000, 2*limit/tenants)
		}
		c.play(4)
		c.play(4)
		part := 4 * (limit - fairness.MaxAccounts*perWindow) / (tenants + 2)
		for i, r := range c.rivals {
			if got := float64(r.got) / part; r.names == 0 && got < 0.97 {
				t.Errorf("%.1f calls a window: tenant %d has %.2f of its part", perWindow, i, got)
			}
		}
	}
}
