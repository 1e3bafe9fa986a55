package shardlimit

import (
	"sync/atomic"

	"github.com/shardlimit/shardlimit/internal/chance"
)

// rare is what a limit has in this process from when somebody first needs it. Of a million keys
// hardly any does.
type rare struct {
	local   ownPart
	nonce   uint64        // tells their tickets from those of other processes and limits
	made    atomic.Uint64 // decisions that this process put together; makes tickets unique
	collect chan struct{} // holds one token: one collection at a time
}

func newRare(c *core) *rare {
	r := &rare{collect: make(chan struct{}, 1), nonce: chance.Uint64()}
	r.local.core, r.local.engine.Clock = c, &c.client.clock
	return r
}

// rare returns it, and makes it if there is none.
func (c *core) rare() *rare {
	return made(&c.seldom, func() *rare { return newRare(c) })
}

// made returns what p points to, and has it made if that is nothing.
func made[T any](p *atomic.Pointer[T], fresh func() *T) *T {
	if v := p.Load(); v != nil {
		return v
	}
	p.CompareAndSwap(nil, fresh())
	return p.Load()
}
