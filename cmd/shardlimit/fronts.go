package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/serve"
)

// front is one of the servers of serve.
type front struct {
	name  string
	serve func() error                // until stop, then nil
	stop  func(context.Context) error // have health say so, and end once calls are answered, or with ctx
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

// front is the HTTP server on a listener.
func (j *serveJob) front(listener net.Listener, handler *serve.Server, con console) front {
	server := serve.HTTP(handler, j.process.config.CallTimeout)
	server.TLSConfig = j.guard.tls()
	scheme, serve := "http", func() error { return server.Serve(listener) }
	if server.TLSConfig != nil {
		scheme, serve = "https", func() error { return server.ServeTLS(listener, "", "") }
	}
	_, _ = fmt.Fprintf(con.err, "shardlimit: limits declared: %d; serving HTTP on %s://%s\n",
		len(j.declarations), scheme, listener.Addr())
	j.guard.warn(con, listener.Addr())
	return front{name: "HTTP",
		serve: func() error {
			if err := serve(); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		},
		stop: func(ctx context.Context) error {
			handler.Leave()
			err := server.Shutdown(ctx)
			if err != nil {
				_ = server.Close()
			}
			return err
		}}
}

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
	second, stopBoth := context.WithCancel(ctx)
	first, stopFirst := context.WithCancel(second)
	signals := make(chan os.Signal, 2)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if s != syscall.SIGHUP || !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	go func() {
		for _, stop := range []context.CancelFunc{stopFirst, stopBoth} {
			select {
			case <-signals:
				stop()
			case <-second.Done():
				return
			}
		}
	}()
	return &interrupts{first: first, second: second, close: func() {
		signal.Stop(signals)
		stopBoth()
	}}
}
