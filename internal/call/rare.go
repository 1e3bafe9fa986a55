package call

import (
	"sync/atomic"

	"github.com/shardlimit/shardlimit/internal/chance"
	"github.com/shardlimit/shardlimit/internal/local"
)

// rare is what a limit has in this process from when somebody first needs it. Of a million keys
// hardly any does.
type rare struct {
	// own enforces this process' part of the limit while Redis is away. It is kept up to date
	// while Redis is there, so that an outage does not hand the window out a second time.
	own     local.Engine
	nonce   uint64        // tells their tickets from those of other processes and limits
	made    atomic.Uint64 // decisions that this process put together; makes tickets unique
	collect chan struct{} // holds one token: one collection at a time
	Courtesy
}

// rare returns it, and makes it if there is none.
func (c *Target) rare() *rare {
	return made(&c.seldom, func() *rare {
		return &rare{own: local.Engine{Clock: &c.Process.Clock}, nonce: chance.Uint64(),
			collect: make(chan struct{}, 1), Courtesy: Courtesy{target: c}}
	})
}

// made returns what p points to, and has it made if that is nothing.
func made[T any](p *atomic.Pointer[T], fresh func() *T) *T {
	if v := p.Load(); v != nil {
		return v
	}
	p.CompareAndSwap(nil, fresh())
	return p.Load()
}
