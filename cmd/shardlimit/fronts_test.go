package main

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// hung is a front whose calls do not end before others is done.
func hung(name string, others *sync.WaitGroup) front {
	stopped := make(chan struct{})
	return front{name: name,
		serve: func() error { <-stopped; return nil },
		stop: func(ctx context.Context) error {
			defer close(stopped)
			others.Done()
			all := make(chan struct{})
			go func() { others.Wait(); close(all) }()
			select {
			case <-all:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
}

func testInterrupts(ctx context.Context) (i *interrupts, interrupt func()) {
	second, stop := context.WithCancel(ctx)
	first, interrupt := context.WithCancel(second)
	return &interrupts{first: first, second: second, close: stop}, interrupt
}

// No server waits for another one to have ended, so all together take no longer than one may.
func TestAllServersAreStoppedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i, interrupt := testInterrupts(t.Context())
		var both sync.WaitGroup
		both.Add(2)
		interrupt()
		if err := serveAll(i, time.Minute, hung("HTTP", &both), hung("Envoy", &both)); err != nil {
			t.Error(err)
		}
		i.close()
	})
}

// Calls that do not end are cut off after the grace, and a second interrupt does not wait for it.
func TestCallsAreCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i, interrupt := testInterrupts(t.Context())
		var never sync.WaitGroup
		never.Add(3)
		interrupt()
		began := time.Now()
		err := serveAll(i, time.Minute, hung("HTTP", &never), hung("Envoy", &never))
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Minute ||
			!strings.Contains(err.Error(), "calls of HTTP") || !strings.Contains(err.Error(), "calls of Envoy") {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		i.close()
		never.Done()
		synctest.Wait()
	})
}

// If one server ends by itself, the other one does not go on as if all were well.
func TestAServerThatEndsEndsAll(t *testing.T) {
	broken := errors.New("broken")
	left, i := false, (*interrupts)(nil)
	i, _ = testInterrupts(t.Context())
	defer i.close()
	var alone sync.WaitGroup
	alone.Add(1)
	well := hung("HTTP", &alone)
	stop := well.stop
	well.stop = func(ctx context.Context) error {
		left = true
		return stop(ctx)
	}
	err := serveAll(i, time.Minute, well, front{name: "Envoy", serve: func() error { return broken },
		stop: func(context.Context) error { return nil }})
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "Envoy has ended") || !left {
		t.Errorf("%v, the other one has left: %v", err, left)
	}
}
