package fleet

import (
	"context"
	"errors"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/load"
	"github.com/shardlimit/shardlimit/internal/history"
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
	// Gateway has all members in one process, where they share a client.
	Gateway bool `json:"gateway"`
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
	To   time.Duration `json:"to"`   // to here; 0: to the end
	Far  time.Duration `json:"far"`  // by how much replies to it are delayed

	// Callers is how many callers of it each work, wait for a permit, and work
	// again; its Rate means nothing then. 0: it calls at its Rate, and nobody waits.
	Callers int `json:"callers,omitempty"`
	// Work is the mean time that each of them works before it wants a permit; the times are
	// distributed exponentially. 0: each wants the next permit at once.
	Work time.Duration `json:"work,omitempty"`

	Index int `json:"index"` // in the whole crowd; set by Gather
}

// Demand is how many permits a second a member wants, of so many that there are: all
// of them, if it has callers that do not work in between. Of callers that do, the
// time that a permit takes to come, even if there are enough of them, is left out: they ask for a
// little less.
func (m Member) Demand(limit float64) float64 {
	switch {
	case m.Callers == 0:
		return m.Rate
	case m.Work == 0:
		return limit
	}
	return float64(m.Callers) / m.Work.Seconds()
}

// Take is a member's calls of one tick, or one call of a caller that waits. What
// such callers want besides is in takes that get nothing.
type Take struct {
	At      int64 `json:"a"` // us since the crowd began
	End     int64 `json:"e"` // when all were answered
	Wanted  int64 `json:"w"`
	Granted int64 `json:"g"`
}

// until is when a member's time is over.
func (c *Crowd) until(m Member) time.Duration {
	if m.To > 0 {
		return min(c.For, m.To)
	}
	return c.For
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
	CPU    time.Duration `json:"cpu"`    // of all processes
}

// lead is how long before a crowd begins its processes are told when.
const lead = 100 * time.Millisecond

// Gather has the crowd do what it wants, and calls each of the marks at its time
// since the beginning, in order of time. After an error the fleet is of no
// further use, except to Close.
func (f *Fleet) Gather(ctx context.Context, c Crowd, marks ...Mark) (Gathering, error) {
	stop := context.AfterFunc(ctx, f.kill) // nothing here waits for longer than that
	defer stop()
	g, err := f.gather(ctx, c, marks)
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return g, err
}

// Mark is something to do at a time.
type Mark struct {
	At time.Duration
	Do func() error
}

func (f *Fleet) gather(ctx context.Context, c Crowd, marks []Mark) (all Gathering, err error) {
	workers := f.workers
	if c.Gateway {
		workers = workers[:1]
	}
	for i, m := range workers {
		own := c.dealt(i, len(workers))
		if err := m.order(order{Crowd: &own}); err != nil {
			return all, err
		}
	}
	for _, m := range workers {
		if r, err := m.reply(); err != nil || !r.Ready {
			return all, errors.Join(errors.New("a worker is not ready"), err)
		}
	}
	begin := history.Now() + int64(lead)
	for _, m := range workers {
		if err := m.order(order{Word: wordRun, At: begin}); err != nil {
			return all, err
		}
	}
	for _, mark := range marks {
		if err := load.Sleep(ctx, time.Duration(begin+int64(mark.At)-history.Now())); err != nil {
			return all, err
		}
		if err := mark.Do(); err != nil {
			return all, err
		}
	}
	all.Trails = make([]Trail, len(c.Members))
	for _, m := range workers {
		r, err := m.reply()
		if err != nil || r.Gathering == nil {
			return all, errors.Join(errors.New("a worker has not reported"), err)
		}
		all.add(*r.Gathering)
	}
	return all, nil
}

// add puts what another process reported to g.
func (g *Gathering) add(o Gathering) {
	for _, t := range o.Trails {
		g.Trails[t.Index] = t
	}
	g.Failed += o.Failed
	g.Unsent += o.Unsent
	g.Lag = max(g.Lag, o.Lag)
	g.CPU += o.CPU
	if o.Err != "" {
		g.Err = o.Err
	}
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
