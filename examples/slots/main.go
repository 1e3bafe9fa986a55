// Command slots downloads files. At most 40 downloads run at once, over all machines that run it:
// not so many a second, but so many at a time, however long each takes.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit"
)

// maxHold is for how long a slot is lost if its machine dies. It need not be the longest download,
// because one that is alive extends its slot.
const maxHold = 3 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	nodes := must(shardlimit.ParseNodes(os.Getenv("REDIS"))) // redis-a:6379,redis-b:6379
	client := must(shardlimit.New(shardlimit.Config{Nodes: nodes, OnOutage: shardlimit.WaitOut,
		Logger: slog.Default()}))
	defer client.Close()
	slots := must(client.Slots(ctx, "downloads", 40, maxHold))
	var files sync.WaitGroup
	var done atomic.Int64
	for range 25 { // of two machines more than may run: the others wait in line
		files.Go(func() {
			if err := withSlot(ctx, slots, download); err != nil {
				log.Print(err)
			} else {
				done.Add(1)
			}
		})
	}
	files.Wait()
	fmt.Println("downloads that are done:", done.Load())
}

// withSlot runs work while it holds a slot, and ends it as soon as it holds none.
func withSlot(ctx context.Context, slots *shardlimit.Slots, work func(context.Context) error) error {
	slot, err := slots.Acquire(ctx)
	if err != nil {
		return err
	}
	working, end := context.WithCancelCause(ctx)
	var extending sync.WaitGroup
	extending.Go(func() { end(extend(working, slot)) })
	err = work(working)
	if cause := context.Cause(working); cause != nil {
		err = cause // why it was ended
	}
	end(nil)
	extending.Wait() // else it could extend what is released
	if err := slot.Release(ctx); err != nil {
		log.Print("it frees itself in maxHold: ", err) // the work is done all the same
	}
	return err
}

// extend keeps a slot until ctx ends, and returns why it is held no more.
func extend(ctx context.Context, slot *shardlimit.Slot) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(maxHold / 3): // so that two tries may fail
		}
		err := slot.Extend(ctx)
		if errors.Is(err, shardlimit.ErrSlotLost) || err != nil && time.Until(slot.Until()) < maxHold/3 {
			return err // the next try would come too late: somebody else may begin
		}
	}
}

// download is the work.
func download(ctx context.Context) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, os.Getenv("URL"), nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}
