package fleet

import "time"

// Kind is how decisions are made.
type Kind string

// The kinds.
const (
	// Coalesced is shardlimit as it is: one Client a participant.
	Coalesced Kind = "coalesced"
	// Waiting is shardlimit, too, but callers wait for their permits.
	Waiting Kind = "waiting"
	// Plain is one script call a decision. The shards take turns, and rueidis
	// pipelines over one connection for each node and process.
	Plain Kind = "plain"
	// FirstCome is our script without a word about who asks: first come, first
	// served. For crowds.
	FirstCome Kind = "first come"
	// RedisRate is redis_rate. For crowds.
	RedisRate Kind = "redis_rate"
)

// Job is a load that a fleet puts on one limit, in a closed loop. Where denials are
// not what is to be measured, the limit must be large enough that there are none.
type Job struct {
	Kind         Kind          `json:"kind"`
	Addrs        []string      `json:"addrs"` // of the nodes, which are called node-0, node-1, ...
	Limit        string        `json:"limit"` // its name
	Permits      int64         `json:"permits"`
	Per          time.Duration `json:"per"`
	Shards       int           `json:"shards"`
	Participants []string      `json:"participants"` // they are divided among the processes
	Callers      int           `json:"callers"`      // for each participant; each makes one call at a time
	// Large, for Waiting, is how many permits one more caller of the first process wants at once,
	// two windows after it had the last ones, each time for another participant; 0: there is none.
	Large int64 `json:"large,omitempty"`
	// Think is the mean of the pauses that a caller makes before a call; they
	// are distributed exponentially. 0 for none.
	Think time.Duration `json:"think"`
	// Life bounds how long a process may work on this job, whatever happens.
	Life time.Duration `json:"life"`
}

// Report is what came back while it was counted.
type Report struct {
	Elapsed time.Duration // of the longest process
	CPU     time.Duration // of all processes
	Allowed int64
	Denied  int64
	Failed  int64
	Err     string          // one of the failures
	Latency map[int]int64   // of the answered calls: a hist snapshot
	Large   []time.Duration // how long each large call waited that ended meanwhile
}

// Decisions are the calls that were answered.
func (r Report) Decisions() int64 { return r.Allowed + r.Denied }

// PerSecond is the rate of answered calls.
func (r Report) PerSecond() float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(r.Decisions()) / r.Elapsed.Seconds()
}

// add puts what another process reported to r.
func (r *Report) add(o Report) {
	r.Elapsed = max(r.Elapsed, o.Elapsed)
	r.CPU += o.CPU
	r.Allowed += o.Allowed
	r.Denied += o.Denied
	r.Failed += o.Failed
	if o.Err != "" {
		r.Err = o.Err
	}
	r.Large = append(r.Large, o.Large...)
	if r.Latency == nil {
		r.Latency = make(map[int]int64)
	}
	for bucket, n := range o.Latency {
		r.Latency[bucket] += n
	}
}

// dealt is the part of the job that falls to process i of n.
func (j Job) dealt(i, n int) Job {
	var own []string
	for k := i; k < len(j.Participants); k += n {
		own = append(own, j.Participants[k])
	}
	j.Participants = own
	if i > 0 {
		j.Large = 0
	}
	return j
}

// The words between parent and worker. The parent sends a job, is told that
// everything is connected, and then says when to load, to count and to end.
const (
	wordRun   = "run"
	wordCount = "count"
	wordEnd   = "end"
)

// order is a line from the parent.
type order struct {
	Job   *Job   `json:"job,omitempty"`
	Crowd *Crowd `json:"crowd,omitempty"`
	Word  string `json:"word,omitempty"`
	At    int64  `json:"at,omitempty"` // with wordRun to a crowd: when, by history.Now
}

// reply is a line from a worker.
type reply struct {
	Ready  bool    `json:"ready,omitempty"`
	Report *Report `json:"report,omitempty"`
	// Gathering is what became of a crowd.
	Gathering *Gathering `json:"gathering,omitempty"`
	Err       string     `json:"err,omitempty"`
}
