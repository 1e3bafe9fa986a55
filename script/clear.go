package script

import (
	"context"

	"github.com/redis/rueidis"
)

// Clear forgets what was used, and ends a quarantine within five seconds. Epoch and share stay,
// except that a share above its target has nothing left to wait for and comes down to it. It
// creates no state.
func (e *Endpoint) Clear(ctx context.Context, s ShardRef) error {
	return e.tell(ctx, s, clearProgram)
}

// Drop deletes a shard's state. Keys that hold something else are left alone, and so is the other
// key: the error is then a [*StateError].
func (e *Endpoint) Drop(ctx context.Context, s ShardRef) error {
	return e.tell(ctx, s, dropProgram)
}

// tell runs an operation whose reply tells no more than that it was done.
func (e *Endpoint) tell(ctx context.Context, s ShardRef, operation int) error {
	reply, err := e.run(ctx, s.program(operation), s.keys(), nil)
	if err != nil {
		return err
	}
	return parseDone(&programs[recordPrograms+operation], reply)
}

func parseDone(p *program, reply []rueidis.RedisMessage) error {
	if len(reply) != 1 {
		return malformed(p, "wrong length")
	}
	return nil
}
