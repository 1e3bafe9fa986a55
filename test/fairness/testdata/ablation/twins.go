package script

import (
	"sync"
	"time"
)

// This file takes the place of Redis where the rule of fairness is taken apart: calls of shards go
// to the twins of the scripts, by an overlay of the source.

var twins struct {
	sync.Mutex
	all map[string]Twin
}

// simulated has a twin carry out a call that takes its time on the way, if the client says how
// long.
func simulated(e *Endpoint, s ShardRef, do func(t Twin, now int64)) {
	there, back := e.client.(interface {
		Way() (there, back time.Duration)
	}).Way()
	time.Sleep(there)
	twins.Lock()
	if twins.all == nil {
		twins.all = map[string]Twin{}
	}
	t := twins.all[s.head]
	if t == nil {
		t = NewTwin(s.algorithm)
		twins.all[s.head] = t
	}
	do(t, time.Now().UnixMicro())
	twins.Unlock()
	time.Sleep(back)
}
