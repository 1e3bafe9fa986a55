package fleet

import (
	"math/rand/v2"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/load"
)

// Kind is how decisions are made.
type Kind string

// The kinds.
const (
	// Coalesced is shardlimit as it is: one Client a participant.
	Coalesced Kind = "coalesced"
	// FirstCome is our script, one call a decision, without a word about who asks: first come,
	// first served. Several shards lie on the nodes in turn, and chance chooses among them.
	FirstCome Kind = "first come"
)

// Crowd is many participants that call for permits of one limit: at instants of their
// own, whatever they are answered (an open loop), or with callers that wait for each
// permit before they want the next (a closed loop).
type Crowd struct {
	Kind    Kind          `json:"kind"`
	Addrs   []string      `json:"addrs"` // of the nodes
	Limit   string        `json:"limit"` // its name
	Permits int64         `json:"permits"`
	Per     time.Duration `json:"per"`
	Shards  int           `json:"shards"`
	Members []Member      `json:"members"` // they are divided among the processes
	// Decide has callers take the first answer, and nobody wait: the limit is out of reach, and
	// what is measured is how many decisions are made. All of them call once before the crowd
	// begins.
	Decide bool `json:"decide,omitempty"`
	// Tick is how often a member calls at most: calls that become due in between
	// are made together.
	Tick time.Duration `json:"tick"`
	For  time.Duration `json:"for"`
	Seed uint64        `json:"seed"`
	// Life bounds how long a process may work on this, whatever happens.
	Life time.Duration `json:"life"`
}

// Member is one participant of a crowd.
type Member struct {
	Name   string  `json:"name"`
	Weight float64 `json:"weight"`
	Rate   float64 `json:"rate"` // calls per second
	// at equal distances, the first at random within one of them; else all at random (Poisson)
	Even bool          `json:"even"`
	From time.Duration `json:"from"` // it is there from here

	// Callers is how many callers of it each work, wait for a permit, and work
	// again; its Rate means nothing then. 0: it calls at its Rate, and nobody waits.
	Callers int `json:"callers,omitempty"`
	// Work is the mean time that each of them works before it wants a permit; the times are
	// distributed exponentially. 0: each wants the next permit at once.
	Work time.Duration `json:"work,omitempty"`

	Index int `json:"index"` // in the whole crowd; set by Gather
}

// arrivals are the instants of a member's calls since it came, the same ones for
// the same seed of the crowd.
func (m Member) arrivals(seed uint64) load.Arrivals {
	seed = seed<<16 + uint64(m.Index)
	if !m.Even {
		return load.Poisson(m.Rate, 1, seed)
	}
	even := load.Even(m.Rate, 1)
	phase := time.Duration(rand.New(rand.NewPCG(seed, 0)).Float64() / m.Rate * float64(time.Second))
	return func() load.Arrival {
		a := even()
		a.At += phase
		return a
	}
}

// work yields how long a caller works before it wants its next permit: times that
// are distributed exponentially, the same ones for the same seed of the crowd.
func (m Member) work(seed uint64, caller int) func() time.Duration {
	random := rand.New(rand.NewPCG(seed<<16+uint64(m.Index), uint64(caller)+1))
	return func() time.Duration { return time.Duration(random.ExpFloat64() * float64(m.Work)) }
}

// missed are the instants at which a caller that waits from one time to another would have wanted
// further permits: who waits does not work, and after each mean time of work it would want
// one. It had waited for so long before that.
func (m Member) missed(before, from, to time.Duration) (at []time.Duration) {
	for t := from + m.Work - before%m.Work; t <= to; t += m.Work {
		at = append(at, t)
	}
	return at
}

// Take is a member's calls of one tick, or one call of a caller that waits. What
// such callers want besides is in takes that get nothing.
type Take struct {
	At      int64 `json:"a"` // us since the crowd began
	End     int64 `json:"e"` // when all were answered
	Wanted  int64 `json:"w"`
	Granted int64 `json:"g"`
}

// Trail is what became of one member's calls.
type Trail struct {
	Index int    `json:"index"`
	Takes []Take `json:"takes"`
}

// Gathering is what became of a crowd's calls.
type Gathering struct {
	Trails []Trail       `json:"trails"` // by index, once the processes have been put together
	Failed int64         `json:"failed"` // calls with an error
	Err    string        `json:"err"`    // one of the errors
	Unsent int64         `json:"unsent"` // calls that were due while too many were under way: the generator's fault
	Lag    time.Duration `json:"lag"`    // the longest that a tick came late
}

// add puts what another process reported to g.
func (g *Gathering) add(o Gathering) {
	for _, t := range o.Trails {
		g.Trails[t.Index] = t
	}
	g.Failed += o.Failed
	g.Unsent += o.Unsent
	g.Lag = max(g.Lag, o.Lag)
	if o.Err != "" {
		g.Err = o.Err
	}
}

// wishes are what a member's callers want that do not work in between: whatever there is, so
// the whole limit, in takes that get nothing.
func (c *Crowd) wishes(m Member) (wishes []Take) {
	all := (c.Permits*int64(c.Tick) + int64(c.Per) - 1) / int64(c.Per)
	for at := m.From; at < c.For; at += c.Tick {
		wishes = append(wishes, Take{At: at.Microseconds(), End: at.Microseconds(), Wanted: all})
	}
	return wishes
}

// dealt is the part of the crowd that falls to process i of n.
func (c Crowd) dealt(i, n int) Crowd {
	var own []Member
	for k := i; k < len(c.Members); k += n {
		m := c.Members[k]
		m.Index = k
		own = append(own, m)
	}
	c.Members = own
	return c
}
