package script

import (
	"context"

	"github.com/redis/rueidis"
)

// ClearReply tells what a clear left.
type ClearReply struct {
	Status Status // OK or Absent
	Epoch  int64
	Share  int64
}

// Clear forgets what was used, and ends a quarantine within five seconds. Epoch and share stay,
// except that a share above its target has nothing left to wait for and comes down to it. It
// creates no state.
func (e *Endpoint) Clear(ctx context.Context, s ShardRef) (ClearReply, error) {
	reply, err := e.run(ctx, s.program(clearProgram), s.keys(), nil)
	if err != nil {
		return ClearReply{}, err
	}
	return parseClear(reply)
}

func parseClear(reply []rueidis.RedisMessage) (ClearReply, error) {
	p := &programs[recordPrograms+clearProgram]
	var n [3]int64
	if len(reply) != len(n) {
		return ClearReply{}, malformed(p, "wrong length")
	}
	if err := integers(p, reply, n[:]); err != nil {
		return ClearReply{}, err
	}
	if !natural(n[:]) || n[0] > int64(OK) {
		return ClearReply{}, malformed(p, "out of range")
	}
	return ClearReply{Status: Status(n[0]), Epoch: n[1], Share: n[2]}, nil
}

// Drop deletes a shard's state. Keys that hold something else are left alone, and so is the other
// key: the error is then a [*StateError].
func (e *Endpoint) Drop(ctx context.Context, s ShardRef) error {
	reply, err := e.run(ctx, s.program(dropProgram), s.keys(), nil)
	if err != nil {
		return err
	}
	return parseDrop(&programs[recordPrograms+dropProgram], reply)
}

func parseDrop(p *program, reply []rueidis.RedisMessage) error {
	if len(reply) != 1 {
		return malformed(p, "wrong length")
	}
	return nil
}
