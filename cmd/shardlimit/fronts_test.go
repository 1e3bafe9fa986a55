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

// No server waits for another one to have ended. Calls that do not end are cut off after the grace,
// or by a second interrupt.
func TestServersAreStoppedAtOnce(t *testing.T) {
	for _, c := range []struct {
		stops int  // that calls of the two servers wait for
		again bool // there is a second interrupt, after a second
		want  error
		takes time.Duration
	}{
		{2, false, nil, 0},
		{3, false, context.DeadlineExceeded, time.Minute},
		{3, true, context.Canceled, time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			i, interrupt := testInterrupts(t.Context())
			var stops sync.WaitGroup
			stops.Add(c.stops)
			interrupt()
			if c.again {
				time.AfterFunc(time.Second, i.close)
			}
			began := time.Now()
			err := serveAll(i, time.Minute, hung("HTTP", &stops), hung("Envoy", &stops))
			if !errors.Is(err, c.want) || time.Since(began) != c.takes || err != nil &&
				(!strings.Contains(err.Error(), "calls of HTTP") || !strings.Contains(err.Error(), "calls of Envoy")) {
				t.Errorf("%+v: after %s: %v", c, time.Since(began), err)
			}
			i.close()
			for range c.stops - 2 {
				stops.Done() // for those who still wait
			}
		})
	}
}

// If one server ends by itself, the other one does not go on as if all were well.
func TestAServerThatEndsEndsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i, _ := testInterrupts(t.Context())
		defer i.close()
		broken := errors.New("broken")
		var left sync.WaitGroup
		left.Add(1)
		err := serveAll(i, time.Minute, hung("HTTP", &left), front{name: "Envoy",
			serve: func() error { return broken }, stop: func(context.Context) error { return nil }})
		if !errors.Is(err, broken) || !strings.Contains(err.Error(), "Envoy has ended") {
			t.Error(err)
		}
		left.Wait() // for ever, unless the other one was told to stop
	})
}
