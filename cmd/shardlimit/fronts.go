package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// front is one of the servers of serve.
type front struct {
	name  string
	serve func() error                // until stop, then nil
	leave func()                      // have health say that it is about to end
	stop  func(context.Context) error // once calls under way are answered; at the end of ctx at once
}

// serveAll serves until the first interrupt, then ends all fronts in good order and at once: calls
// that are under way are answered, for at most grace or until the second interrupt. If a front ends
// by itself, the others do not go on without it.
func serveAll(interrupts *interrupts, grace time.Duration, fronts ...front) error {
	ended := make(chan error, len(fronts))
	for _, f := range fronts {
		go func() {
			if err := f.serve(); err != nil {
				ended <- fmt.Errorf("%s has ended: %w", f.name, err)
			}
		}()
	}
	var fault error
	select {
	case fault = <-ended:
	case <-interrupts.first.Done():
	}
	for _, f := range fronts {
		f.leave()
	}
	ctx, cancel := context.WithTimeout(interrupts.second, grace)
	defer cancel()
	errs := make([]error, len(fronts))
	var wg sync.WaitGroup
	for i, f := range fronts {
		wg.Go(func() {
			if err := f.stop(ctx); err != nil {
				errs[i] = fmt.Errorf("some calls of %s had not ended: %w", f.name, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(append(errs, fault)...)
}
