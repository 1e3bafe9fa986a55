package fairness

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// The simulation is a fleet of participants over the shards of one limit, in steps of one
// millisecond and windows of one second. A client spreads its calls over two shards, and over all
// that are open once one is shut; it keeps away from a shard until its hint, gives a call up after
// four refusals or when all shards are shut, and tells every shard its part of what it gave up.

const (
	simStep   = 1000
	simWindow = 1_000_000
	simTries  = 4
	simMerge  = simWindow / 128
	epoch     = int64(1_700_000_000_000_000)
)

// simLog is a sliding log whose entries merge and are dated late.
type simLog struct {
	share, used    int64
	dates, permits []int64
	opened         int64
	contended      int64 // when somebody was last refused; 0, or two windows ago: there is no ledger
	ledger         Ledger
}

func (l *simLog) leave(now int64) {
	for len(l.dates) > 0 && l.dates[0]+simWindow <= now {
		l.used -= l.permits[0]
		l.dates, l.permits = l.dates[1:], l.permits[1:]
	}
}

// ask is one call of one participant.
func (l *simLog) ask(now int64, caller *Caller, count int64) (granted, retry int64) {
	l.leave(now)
	t := Term{Now: now, Window: simWindow, Share: l.share}
	callers := []Caller{*caller}
	var room [1]int64
	asks := []Ask{{Size: 1, Count: count}}
	if count == 0 {
		asks = nil
	}
	contended := l.contended > 0 && l.contended+2*simWindow > now
	granted = min(count, l.share-l.used)
	next := int64(0)
	if len(l.dates) > 0 {
		next = l.dates[0] + simWindow - now
	}
	if contended {
		var hints []int64
		_, hints, granted, _ = l.ledger.Grant(room[:0], nil, t, l.share-l.used, next, callers, asks)
		retry = hints[0]
	}
	if granted < count || caller.Unmet > 0 || caller.Waiting > 0 {
		if !contended {
			l.ledger.Clear()
		}
		l.contended = now
	}
	if granted > 0 {
		if last := len(l.dates) - 1; last >= 32 && now-l.opened < simMerge {
			l.dates[last], l.permits[last] = now, l.permits[last]+granted
		} else {
			l.dates, l.permits, l.opened = append(l.dates, now), append(l.permits, granted), now
		}
		l.used += granted
	}
	if l.used == l.share {
		retry = max(retry, next) // nothing is free: known without the hint
	}
	return granted, retry
}

// simClient is one participant.
type simClient struct {
	id      string
	weight  int64
	rate    func(now int64) float64 // calls per second
	newName bool                    // another name with every call
	// thousandths of a permit that it claims to have denied for good, with every call, and permits
	// to wait for
	boast     int64
	hasty     bool // it heeds no hint
	even      bool // its calls come evenly, else at random
	due       float64
	waiters   int64   // callers that wait for a permit, and then for the next one
	think     int64   // how long each is busy with the one before it wants the next, us, on average
	busy      []int64 // when those that are will have done
	waiting   int64   // how many of them waited at last
	nap       int64   // until then they do not look again
	open      []int64 // when each shard may be asked again
	unmet     []float64
	first     int // the preferred shards: this one and the next
	wanted    int64
	admitted  int64
	perWindow []int64
	asked     int64
}

type sim struct {
	t       *testing.T
	rng     *rand.Rand
	shards  []*simLog
	clients []*simClient
	names   int
}

func newSim(t *testing.T, limit int64, shards int) *sim {
	s := &sim{t: t, rng: rand.New(rand.NewPCG(7, uint64(limit)))}
	for i := range shards {
		share := limit / int64(shards)
		if int64(i) < limit%int64(shards) {
			share++
		}
		s.shards = append(s.shards, &simLog{share: share})
	}
	return s
}

func (s *sim) name() string {
	s.names++
	return fmt.Sprintf("%016x", s.rng.Uint64())
}

func (s *sim) add(weight int64, rate func(int64) float64) *simClient {
	c := &simClient{id: s.name(), weight: weight, rate: rate, first: s.rng.IntN(len(s.shards))}
	for range s.shards {
		c.open, c.unmet = append(c.open, 0), append(c.unmet, 0)
	}
	s.clients = append(s.clients, c)
	return c
}

func steady(rate float64) func(int64) float64 { return func(int64) float64 { return rate } }

func (s *sim) poisson(mean float64) (n int64) {
	if mean > 50 {
		return max(0, int64(math.Round(mean+math.Sqrt(mean)*s.rng.NormFloat64())))
	}
	for p := s.rng.Float64(); p > math.Exp(-mean); p *= s.rng.Float64() {
		n++
	}
	return n
}

// run simulates windows [0, windows) and counts what is wanted and admitted from window `from` on.
func (s *sim) run(windows, from int64) {
	order := make([]int, len(s.clients))
	for i := range order {
		order[i] = i
	}
	for now := int64(0); now < windows*simWindow; now += simStep {
		s.rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for _, i := range order {
			c := s.clients[i]
			if now == from*simWindow {
				c.asked = 0
			}
			calls := s.calls(c, epoch+now)
			if calls == 0 {
				continue
			}
			granted := s.serve(c, epoch+now, calls)
			for int64(len(c.perWindow)) <= now/simWindow {
				c.perWindow = append(c.perWindow, 0)
			}
			c.perWindow[now/simWindow] += granted
			if now >= from*simWindow {
				c.wanted += calls
				c.admitted += granted
			}
		}
	}
}

// calls is how many calls a participant makes at an instant.
func (s *sim) calls(c *simClient, now int64) int64 {
	switch {
	case c.waiters > 0:
		c.busy = slices.DeleteFunc(c.busy, func(done int64) bool { return done <= now })
		ready := c.waiters - int64(len(c.busy))
		if now < c.nap {
			if len(c.perWindow) > 0 { // told from memory that there is none
				c.waiting = ready
			}
			return 0
		}
		return ready
	case c.even:
		c.due += c.rate(now-epoch) * simStep / simWindow
		n := math.Floor(c.due)
		c.due -= n
		return int64(n)
	}
	return s.poisson(c.rate(now-epoch) * simStep / simWindow)
}

// serve tries to get calls admitted.
func (s *sim) serve(c *simClient, now, calls int64) (granted int64) {
	if c.newName {
		for ; calls > 0; calls-- {
			c.id = s.name()
			for i := range s.shards {
				c.open[i], c.unmet[i] = 0, 0
			}
			granted += s.spread(c, now, 1)
		}
		return granted
	}
	return s.spread(c, now, calls)
}

func (s *sim) spread(c *simClient, now, calls int64) (granted int64) {
	n := len(s.shards)
	tries := 0
	left := calls
	var ask func(i int, count int64)
	ask = func(i int, count int64) {
		if c.waiters == 0 && count > 1 { // the first call that finds the shard open does not wait for others
			if ask(i, 1); c.open[i] > now {
				return
			}
			count--
		}
		caller := Caller{ID: c.id, Weight: c.weight, Unmet: int64(c.unmet[i])}
		c.unmet[i] -= float64(caller.Unmet)
		caller.Unmet += c.boast
		caller.Waiting = c.boast / milli
		if c.waiters > 0 {
			caller.Waiting = (c.waiting + int64(n) - 1) / int64(n)
		}
		got, retry := s.shards[i].ask(now, &caller, count)
		c.asked++
		c.open[i] = now + retry
		if got < count && retry < 1000 {
			c.open[i] = now + 1000
		}
		if c.hasty {
			c.open[i] = now
		}
		granted, left = granted+got, left-got
	}
	if c.waiters > 0 {
		for _, i := range s.rng.Perm(n) {
			if c.open[i] <= now && left > 0 {
				ask(i, left)
			}
		}
		if c.nap, c.waiting = slices.Min(c.open), 0; left > 0 {
			c.waiting = left
		}
		for range granted {
			if c.think > 0 {
				c.busy = append(c.busy, now+int64(s.rng.ExpFloat64()*float64(c.think)))
			}
		}
		return granted
	}
	preferred := []int{c.first, (c.first + 1) % n}
	if n == 1 {
		preferred = preferred[:1]
	}
	both := true
	for _, i := range preferred {
		both = both && c.open[i] <= now
	}
	if both {
		for k, i := range preferred {
			part := left / int64(len(preferred)-k)
			if part > 0 {
				ask(i, part)
			}
		}
		tries++
	}
	for ; tries < simTries && left > 0; tries++ {
		var open []int
		for i := range n {
			if c.open[i] <= now {
				open = append(open, i)
			}
		}
		if len(open) == 0 {
			break
		}
		s.rng.Shuffle(len(open), func(i, j int) { open[i], open[j] = open[j], open[i] })
		for k, i := range open {
			if part := (left + int64(len(open)-k) - 1) / int64(len(open)-k); part > 0 {
				ask(i, part)
			}
		}
	}
	if left > 0 {
		for i := range n {
			c.unmet[i] += float64(left) * 1000 * min(1, 2/float64(n))
		}
	}
	return granted
}

type simResult struct{ jain, least, most, use, calls float64 }

// result compares what was admitted with the entitlements over the windows measured.
func (s *sim) result(windows int64) simResult {
	limit := int64(0)
	for _, l := range s.shards {
		limit += l.share
	}
	var claims []Claim
	wanted, admitted, asked := int64(0), int64(0), int64(0)
	for _, c := range s.clients {
		if c.waiters > 0 {
			c.wanted = limit * windows
			if c.think > 0 {
				c.wanted = min(c.wanted, c.waiters*windows*simWindow/(c.think+simStep/2))
			}
		}
		claims = append(claims, Claim{Demand: c.wanted, Weight: c.weight})
		wanted, admitted, asked = wanted+c.wanted, admitted+c.admitted, asked+c.asked
	}
	var parts []float64
	for i, share := range Shares(nil, limit*windows, claims) {
		if share > 0 {
			parts = append(parts, float64(s.clients[i].admitted)/float64(share))
		}
	}
	return simResult{
		jain: Jain(parts), least: slices.Min(parts), most: slices.Max(parts),
		use: float64(admitted) / float64(min(wanted, limit*windows)), calls: float64(asked) / float64(max(admitted, 1)),
	}
}
