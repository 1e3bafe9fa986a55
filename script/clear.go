package script

import "context"

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
	p := s.algorithm.programOf(operation)
	reply, err := e.run(ctx, p, s.keys(), nil)
	if err == nil && len(reply) != 1 {
		return malformed(p, "wrong length")
	}
	return err
}
