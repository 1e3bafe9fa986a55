package shardlimit

import (
	"context"
	"time"

	"github.com/shardlimit/shardlimit/internal/call"
	"github.com/shardlimit/shardlimit/internal/wait"
)

// Slots bounds how many of something run at once, in all processes together. It is safe for
// concurrent use.
type Slots struct {
	in *call.Limiter
}

// Slots returns a handle on the slots of that name. If the name is new there are n, each held for
// at most maxHold, 1 ms to 31 days; else the handle joins what is stored. At no instant more than n
// are held, by the clocks of the servers. Beside those there may be some that Config.OnOutage let
// pass, and n that a node forgot under Resume, which Config.AfterLoss is by default if maxHold is
// above a minute.
//
// Slots are a Family of that name, whose SetLimit changes n and maxHold, with the one key "slots".
// A shorter maxHold ends slots that are held; Until and Extend hear of it within 2 seconds.
// Errors are those of Client.Family.
func (c *Client) Slots(ctx context.Context, name string, n int64, maxHold time.Duration) (*Slots, error) {
	in, err := c.in.Slots(ctx, name, n, maxHold)
	if err != nil {
		return nil, err
	}
	return &Slots{in}, nil
}

// Acquire blocks until a slot is free, or ctx ends. Callers of a process are served first come,
// first served. A process that waits hears within 250 ms that another one has released a slot.
// While all slots are held, each process that wants its equal part of them gets it, as far as they
// can be divided. Errors are those of Limiter.Acquire, but never ErrWaitTooLong: when slots come
// back nobody knows.
func (s *Slots) Acquire(ctx context.Context) (*Slot, error) {
	d, err := wait.Acquire(ctx, s.in, 1, true)
	if err != nil {
		return nil, err
	}
	return &Slot{call.NewSlot(s.in, d)}, nil
}

// Slot is one that is held. It is safe for concurrent use.
type Slot struct {
	in *call.Slot
}

// Release frees the slot, though ctx has ended. Whoever releases it again gets nil. After a
// *ShardError it may be called again for half a minute; else the slot frees itself.
func (s *Slot) Release(ctx context.Context) error { return s.in.Release(ctx) }

// Until returns when the slot frees itself, on this process' clock. Whoever works on without Extend
// may be one too many.
func (s *Slot) Until() time.Time { return s.in.Until() }

// Extend has the slot held for up to maxHold from now on. No slot need be free for that. One
// that Config.OnOutage let pass is asked for anew once the outage is over. With ErrSlotLost it is
// held no more: it was released, freed itself, was not free, or its node has lost its memory.
// After any other error it is held until Until, and Extend may be called again; if the reply was
// lost, one slot less may be free for maxHold.
func (s *Slot) Extend(ctx context.Context) error { return s.in.Extend(ctx) }
