package shardlimit_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shardlimit/shardlimit"
)

// At most two exports run at once, in all processes together.
func ExampleClient_Slots() {
	client, ctx, stop := start()
	defer stop()
	exports := must(client.Slots(ctx, "exports", 2, 5*time.Minute))
	for range 3 {
		slot := must(exports.Acquire(ctx))
		fmt.Println("export")
		fmt.Println(slot.Release(ctx))
	}
	// Output:
	// export
	// <nil>
	// export
	// <nil>
	// export
	// <nil>
}

// Who waits for a slot gets it when it is released, or gives up when ctx ends.
func ExampleSlots_Acquire() {
	client, ctx, stop := start()
	defer stop()
	exports := must(client.Slots(ctx, "exports", 1, 5*time.Minute))
	held := must(exports.Acquire(ctx))
	soon, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	_, err := exports.Acquire(soon)
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	time.AfterFunc(20*time.Millisecond, func() { _ = held.Release(ctx) })
	slot, err := exports.Acquire(ctx)
	fmt.Println(slot != nil, err)
	// Output:
	// true
	// true <nil>
}

// A slot that was released is free for others at once. To release it again changes nothing.
func ExampleSlot_Release() {
	client, ctx, stop := start()
	defer stop()
	imports := must(client.Slots(ctx, "imports", 1, time.Minute))
	slot := must(imports.Acquire(ctx))
	fmt.Println(slot.Release(ctx), slot.Release(ctx))
	// Output: <nil> <nil>
}

// A run ends before its slot frees itself.
func ExampleSlot_Until() {
	client, ctx, stop := start()
	defer stop()
	reports := must(client.Slots(ctx, "reports", 3, time.Minute))
	slot := must(reports.Acquire(ctx))
	within, cancel := context.WithDeadline(ctx, slot.Until())
	defer cancel()
	end, _ := within.Deadline()
	fmt.Println(time.Until(end) <= time.Minute, slot.Release(ctx))
	// Output: true <nil>
}

// A run that takes longer than maxHold extends its slot.
func ExampleSlot_Extend() {
	client, ctx, stop := start()
	defer stop()
	backups := must(client.Slots(ctx, "backups", 1, time.Minute))
	slot := must(backups.Acquire(ctx))
	for part := range 3 {
		fmt.Println("part", part) // takes less than a minute
		check(slot.Extend(ctx))
	}
	fmt.Println(slot.Release(ctx))
	fmt.Println(errors.Is(slot.Extend(ctx), shardlimit.ErrSlotLost))
	// Output:
	// part 0
	// part 1
	// part 2
	// <nil>
	// true
}
