package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// interrupts turns signals into the ends of two contexts: the first asks to
// finish in good order, the second to stop waiting for anybody.
type interrupts struct {
	first, second context.Context
	close         func()
}

// listen takes over SIGINT, SIGTERM and, unless nohup or the like have turned it
// off, SIGHUP until close. (Shells turn SIGINT off for what they start in the
// background; who sends it then by name means it.) From then on, and for good,
// writing to a closed pipe is an error and not the end of the program.
func listen(ctx context.Context) *interrupts {
	signal.Ignore(syscall.SIGPIPE)
	second, stopSecond := context.WithCancel(ctx)
	first, stopFirst := context.WithCancel(second)
	signals := make(chan os.Signal, 2)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if s != syscall.SIGHUP || !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	done := make(chan struct{})
	go func() {
		for _, stop := range []context.CancelFunc{stopFirst, stopSecond} {
			select {
			case <-signals:
				stop()
			case <-done:
				return
			}
		}
	}()
	return &interrupts{first: first, second: second, close: func() {
		signal.Stop(signals)
		close(done)
		stopSecond()
		stopFirst()
	}}
}
