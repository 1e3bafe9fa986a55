package demo

import (
	"fmt"
	"time"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/rate"
)

// Snapshot is what a frame shows.
type Snapshot struct {
	Elapsed, For time.Duration
	Limit        rate.Rate // in force
	PerSecond    float64   // permits admitted to the whole fleet lately
	Workers      []WorkerLine
	Nodes        []NodeLine
	Events       []Event // oldest first
}

// WorkerLine is one worker of a Snapshot.
type WorkerLine struct {
	Name, How string
	PerSecond float64
	Entitled  float64 // permits per second at which it has its part, as the limit is now
}

// NodeLine is one node of a Snapshot.
type NodeLine struct {
	Name        string
	Away        bool
	Shards      int
	Share, Used int64 // of all its shards
}

// Event is something that happened, At a time since the beginning.
type Event struct {
	At   time.Duration
	Text string
}

func (s *stage) snapshot(elapsed time.Duration, perSecond, asked []float64) Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.phases[len(s.phases)-1]
	shot := Snapshot{Elapsed: elapsed, For: s.config.For, Limit: rate.Rate{Permits: now.limit, Per: s.config.Rate.Per},
		Events: append([]Event(nil), s.events...)}
	per := s.config.Rate.Per
	windows := stretchOf(per)
	stretch := time.Duration(windows) * per
	shares := entitled((now.limit-now.away)*windows, s.fleet.wants(asked, stretch))
	for i, w := range s.fleet.workers {
		shot.Workers = append(shot.Workers,
			WorkerLine{w.name, w.how, perSecond[i], float64(shares[i]) / stretch.Seconds()})
		shot.PerSecond += perSecond[i]
	}
	shot.Nodes = s.nodeLines()
	return shot
}

func (s *stage) nodeLines() []NodeLine {
	lines := make([]NodeLine, s.config.Nodes)
	index := make(map[string]int, len(lines))
	for i, n := range s.servers.Nodes() {
		index[n.Name] = i
		lines[i].Name = nodeName(i)
	}
	for _, sh := range s.peeked.Shards {
		line := &lines[index[sh.Node]]
		line.Shards++
		line.Share += sh.Share
		line.Used += sh.Used
		if sh.Err != nil {
			line.Away = true
			line.Share += sh.Target
		}
	}
	return lines
}

func (n NodeLine) shards() string {
	if n.Shards == 1 {
		return "1 shard"
	}
	return fmt.Sprintf("%d shards", n.Shards)
}

// speeds turns running totals, sampled now and then, into permits per second
// over the last stretch of time.
type speeds struct {
	over    time.Duration
	samples []sample // oldest first
}

type sample struct {
	at     time.Duration
	totals []int64
}

// add takes a sample and returns the speeds up to it. Before there are samples
// for the whole stretch, they are over the time since the first one.
func (s *speeds) add(at time.Duration, totals []int64) []float64 {
	s.samples = append(s.samples, sample{at, totals})
	for len(s.samples) > 2 && at-s.samples[1].at >= s.over {
		s.samples = s.samples[1:]
	}
	first := s.samples[0]
	result := make([]float64, len(totals))
	if at <= first.at {
		return result
	}
	for i := range totals {
		result[i] = float64(totals[i]-first.totals[i]) / (at - first.at).Seconds()
	}
	return result
}
