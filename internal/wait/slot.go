package wait

import (
	"context"

	"github.com/shardlimit/shardlimit/internal/call"
)

// AcquireSlot blocks until a slot is free, however long that takes: when others release theirs
// nobody knows.
func AcquireSlot(ctx context.Context, l *call.Limiter) (*call.Slot, error) {
	d, err := obtain(ctx, l, 1, true)
	if err != nil {
		return nil, err
	}
	return call.NewSlot(l, d), nil
}
